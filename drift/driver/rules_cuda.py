"""Driver rules about CUDA: the driver is new enough for each torch, and programs find GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gpu_node.drift.driver import subjects
from gpu_node.drift.driver.rules import version_differs
from gpu_node.drift.driver.rules_gpus import unsupported_gpu
from gpu_node.drift.driver.rules_module import library_mismatch, not_loaded
from gpu_node.drift.driver.target import branch, build_for, floor, newer
from gpu_node.drift.engine.rule import Fault, on_node, rule
from gpu_node.drift.engine.subject import Subject
from gpu_node.drift.nccl.libnccl import environments
from gpu_node.drift.toolchain.rules_compat import compat_library
from gpu_node.facts.driver.cuda_init import CudaInit
from gpu_node.facts.driver.state import DriverState
from gpu_node.facts.node import NodeState
from gpu_node.inventories.schema import DriverWanted, NodeWanted


def _wanted_suffices(driver: Subject) -> bool:
    """Whether the driver that the inventory wants is new enough for the environment."""
    return isinstance(driver, subjects.DriverFor) and driver.wanted_suffices


def _installed_suffices(driver: Subject) -> bool:
    """Whether programs load another libcuda than the driver's, which is new enough."""
    return isinstance(driver, subjects.DriverFor) and driver.installed_suffices


@rule(
    "driver.too-old",
    "error",
    whole=True,
    because_of=(
        on_node(compat_library, explains=_installed_suffices),
        on_node(version_differs, explains=_wanted_suffices),
    ),
    always=True,
    stops="every",
    why="torch finds no GPU: 'The NVIDIA driver on your system is too old'",
    manual="install a newer driver branch, or a torch that is built for an older CUDA",
    alone="Install a torch that is built for the CUDA of the installed driver.",
)
def too_old(state: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """The driver is older than the CUDA of an environment's torch asks for.

    libcuda decides: NVIDIA's cuda-compat brings one of a newer driver.
    """
    cuda_library = state.driver.cuda
    version = (cuda_library.version if cuda_library else "") or state.driver.library
    by = ""
    if cuda_library and version != state.driver.library:
        by = f"; programs load {cuda_library.path}, and the driver is {state.driver.library}"
    for prefix, environment in environments(state.nccl) if version else ():
        cuda = environment.torch.cuda if environment.torch else None
        first = floor(cuda) if cuda else None
        if first is not None and branch(version or "") < first:
            asked = wanted.driver.version if wanted.driver else None
            way, other = newer(str(first), state, wanted), build_for(cuda or "", state, wanted)
            suffices = not by and asked is not None and branch(asked) >= first
            has = bool(by) and branch(state.driver.library or "0") >= first
            yield Fault(
                subject=subjects.DriverFor(prefix, suffices, has),
                found=f"{version}",
                wanted=f"a torch for {other}"
                if other
                else f"branch {way or first}, for CUDA {cuda}",
                cause=f"'The NVIDIA driver on your system is too old': torch finds no GPU{by}",
                fix="remove the folder of that libcuda from LD_LIBRARY_PATH or /etc/ld.so.conf.d"
                if has
                else _advice(way, other),
            )


def _advice(way: str, other: str) -> str:
    """Return how torch and driver fit; `way` are the drivers that run it, `other` is its CUDA."""
    if other:
        return f"install a torch for {other}: no driver of this node's GPUs and kernel runs it"
    driver = f"a driver of branch {way}, or " if way else ""
    return f"install {driver}a torch for an older CUDA"


class _Result(NamedTuple):
    """A result of cuInit: CUDA's words for it, what it means, and what to do."""

    words: str
    cause: str
    fix: str


_LOGS = "look for NVRM and Xid in dmesg, and reboot the node when it is idle"
# The numbers and words of CUresult: cuda.h. What they mean at cuInit: NVIDIA's documentation of the
# driver API and of CUDA compatibility, and reports of users.
_RESULTS = {
    34: _Result(
        "stub library",
        "that libcuda is the stub of CUDA's toolkit, to link programs with: it reaches no GPU",
        "remove the folder of the stubs from LD_LIBRARY_PATH or /etc/ld.so.conf.d",
    ),
    100: _Result(
        "no CUDA-capable device is detected",
        "the driver gives this user no GPU, although nvidia-smi lists GPUs",
        "check that the user may open /dev/nvidia0 and its siblings; else " + _LOGS,
    ),
    304: _Result(
        "OS call failed or operation not supported on this OS",
        "the driver's devices cannot be opened or mapped",
        "check the modes of /dev/nvidia*; else " + _LOGS,
    ),
    802: _Result(
        "system not yet initialized",
        "on machines with NVSwitch no GPU computes until the fabric manager, of exactly the "
        "driver's version, has set up the switches",
        "install nvidia-fabricmanager in the driver's version; then: systemctl enable --now "
        "nvidia-fabricmanager",
    ),
    803: _Result(
        "system has unsupported display driver / cuda driver combination",
        "libcuda is from another driver than the loaded module, and the two do not fit",
        "let programs load the libcuda of the loaded module's version: remove the folder of the "
        "other one from LD_LIBRARY_PATH or /etc/ld.so.conf.d, or reinstall the driver's packages",
    ),
    804: _Result(
        "forward compatibility was attempted on non supported HW",
        "libcuda is from cuda-compat, which supports data-centre GPUs alone, and only beside the "
        "driver branches that its release notes list",
        "remove the folder of cuda-compat from LD_LIBRARY_PATH or /etc/ld.so.conf.d, or uninstall "
        "cuda-compat",
    ),
    999: _Result(
        "unknown error",
        "the usual causes: /dev/nvidia-uvm cannot be opened, or the module nvidia_uvm has failed, "
        "for example after a suspend",
        "while no process uses the GPUs: modprobe -r nvidia_uvm; modprobe nvidia_uvm; "
        "nvidia-modprobe -u -c 0; else " + _LOGS,
    ),
}
_OTHER = _Result("", "the driver cannot initialise CUDA", _LOGS)
_HARM = "nvidia-smi works, and torch finds no GPU"
# What a libcuda of another version than the module's can cause.
_OF_LIBRARY = (803, 804)


def _is_compat(about: Subject) -> bool:
    return isinstance(about, subjects.CudaInit) and about.code in _OF_LIBRARY


@rule(
    "driver.cuda-init",
    "error",
    because_of=(
        *(on_node(each) for each in (not_loaded, library_mismatch, unsupported_gpu)),
        on_node(compat_library, explains=_is_compat),
    ),
    always=True,
    stops="every",
    why="nvidia-smi shows the GPUs, and no program can use them: torch.cuda.is_available() "
    "is false",
    manual="the finding names the error of CUDA and its cause; a missing /dev/nvidia-uvm: "
    "install nvidia-modprobe, and run nvidia-modprobe -u -c 0",
    alone="Leave the node out of the job. A libcuda of another driver: remove its folder from "
    "LD_LIBRARY_PATH.",
)
def cuda_init(state: DriverState, wanted: DriverWanted) -> Iterator[Fault]:
    """nvidia-smi lists the GPUs, and a program that uses CUDA fails: cuInit, or /dev/nvidia-uvm."""
    cuda = state.cuda_init
    if cuda is None or cuda.works or cuda.untried or cuda.helped:
        return  # what is untried has its reason in the report's values
    if cuda.lacks:
        yield _without_uvm(cuda)
        return
    library = cuda.library or "libcuda.so.1"
    if cuda.code is None:
        yield Fault(
            subject="CUDA",
            found=cuda.problem if not cuda.library else f"cuInit of {library}: {cuda.problem}",
            wanted="cuInit returns 0",
            cause=f"{_HARM}: it loads this library for each use of CUDA",
            fix="reinstall the driver's packages: the one that has libcuda is libnvidia-compute-"
            "BRANCH on Ubuntu, libcuda1 on Debian, nvidia-driver-cuda-libs or nvidia-driver-latest "
            "on the rpm family"
            if not cuda.library or cuda.problem.startswith("cannot")
            else _LOGS,
        )
        return
    result = _RESULTS.get(cuda.code, _OTHER)
    words = f" ({result.words})" if result.words else ""
    yield Fault(
        subject=subjects.CudaInit("CUDA", cuda.code),
        found=f"cuInit of {library} returns {cuda.code}{words}{_versions(state, cuda)}",
        wanted="cuInit returns 0",
        cause=f"{_HARM}: {result.cause}",
        fix=_access(cuda) or result.fix,
    )


def _without_uvm(cuda: CudaInit) -> Fault:
    """Return the fault that nvidia-uvm is missing, and nothing provides it."""
    is_module = cuda.lacks == "module"
    return Fault(
        subject="CUDA",
        found="the module nvidia_uvm is not loaded" if is_module else "no /dev/nvidia-uvm",
        wanted="/dev/nvidia-uvm",
        cause=f"{_HARM} ('CUDA unknown error', 999): libcuda lets nvidia-modprobe load the module "
        "and make the device, and here it is not installed, or not setuid root; after a boot "
        "without a display nothing else does",
        fix="install the package nvidia-modprobe; for now, as root: "
        + ("modprobe nvidia-uvm; " if is_module else "")
        + "nvidia-modprobe -u -c 0",
    )


def _versions(state: DriverState, cuda: CudaInit) -> str:
    """Return the versions of libcuda and of the loaded module, where they differ."""
    library, loaded = state.cuda, state.loaded
    if library is None or loaded is None or library.version in ("", loaded.nvidia):
        return ""
    return f"; libcuda is {library.version}, the loaded module {loaded.nvidia}"


def _access(cuda: CudaInit) -> str:
    """Return how the training user gets access to the devices; empty where it has that."""
    if not cuda.closed or cuda.code in (34, 802, 803, 804):
        return ""
    return (
        f"give the training user access to {' and '.join(cuda.closed)}: their group, or "
        "NVreg_DeviceFileMode=0666 for the module nvidia"
    )

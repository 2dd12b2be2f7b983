"""Driver rules about CUDA: the driver is new enough for each torch, and programs find GPUs."""

from collections.abc import Iterator
from typing import NamedTuple

from gpu_node.drift.driver.subjects import DriverFor
from gpu_node.drift.driver.target import branch, build_for, floor, newer, torch_for
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.nccl.libnccl import environments
from gpu_node.facts.driver.cuda_init import CudaInit
from gpu_node.facts.driver.state import DriverState
from gpu_node.inventories.wanted import DriverWanted


@check("driver.too-old")
def too_old(at: At) -> Iterator[Fault]:
    # libcuda decides: NVIDIA's cuda-compat brings one of a newer driver.
    cuda_library = at.node.driver.cuda
    version = (cuda_library.version if cuda_library else "") or at.node.driver.library
    by = ""
    if cuda_library and version != at.node.driver.library:
        by = f"programs load {cuda_library.path}, and the driver is {at.node.driver.library}"
    for prefix, environment in environments(at.node.nccl) if version else ():
        torch = environment.torch
        cuda = torch.cuda if torch else None
        first = floor(cuda) if cuda else None
        if torch is not None and first is not None and branch(version or "") < first:
            asked = at.wanted.driver.version if at.wanted.driver else None
            way, other = (
                newer(str(first), at.node, at.wanted),
                build_for(cuda or "", at.node, at.wanted),
            )
            suffices = not by and asked is not None and branch(asked) >= first
            has = bool(by) and branch(at.node.driver.library or "0") >= first
            yield Fault(
                subject=DriverFor(prefix),
                found=f"{version}",
                wanted=f"a torch for {other}"
                if other
                else f"branch {way or first}, for CUDA {cuda}",
                also=by,
                fix="remove the folder of that libcuda from LD_LIBRARY_PATH or /etc/ld.so.conf.d"
                if has
                else _advice(way, other, torch_for(at.node, at.wanted, torch.version)),
                explained_by=("toolchain.compat-library",) * has
                + ("driver.version-differs",) * suffices,
            )


def _advice(way: str, other: str, torch: str) -> str:
    """Return how torch and driver fit.

    `way` are the drivers that run it, `other` is the CUDA that it must have, `torch` the command.
    """
    if other:
        return (
            f"no driver of this node's GPUs and kernel runs it: install a torch for {other}{torch}"
        )
    driver = f"a driver of branch {way}, or " if way else ""
    return f"install {driver}a torch for an older CUDA{torch}"


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
# Without a GPU: MIG is on, and CUDA shows its instances alone.
_WITHOUT_INSTANCE = {
    "cause": "MIG is on for all GPUs, and without an instance CUDA shows none of them",
    "fix": "turn MIG off while nothing uses the GPUs: nvidia-smi -mig 0; or make instances: "
    "nvidia-smi mig -lgip lists the sizes, nvidia-smi mig -cgi SIZE -C makes one",
}
_HARM = "nvidia-smi works, and torch finds no GPU"
# What a libcuda of another version than the module's can cause.
_OF_LIBRARY = (803, 804)
_OF_MODULE = ("driver.not-loaded", "driver.library-mismatch", "driver.unsupported-gpu")


@check("driver.cuda-init")
def cuda_init(at: At[DriverState, DriverWanted]) -> Iterator[Fault]:
    cuda = at.here.cuda_init
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
            explained_by=_OF_MODULE,
        )
        return
    result = _RESULTS.get(cuda.code, _OTHER)
    gpus = at.here.smi.gpus if at.here.smi else ()
    if cuda.code == 100 and gpus and all(gpu.mig for gpu in gpus):
        result = result._replace(**_WITHOUT_INSTANCE)
    words = f" ({result.words})" if result.words else ""
    yield Fault(
        subject="CUDA",
        found=f"cuInit of {library} returns {cuda.code}{words}{_versions(at.here, cuda)}",
        wanted="cuInit returns 0",
        cause=f"{_HARM}: {result.cause}",
        fix=_access(cuda) or result.fix,
        explained_by=None if cuda.code in _OF_LIBRARY else _OF_MODULE,
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
        explained_by=_OF_MODULE,
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

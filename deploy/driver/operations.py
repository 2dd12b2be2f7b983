"""Operations on the driver.

pyinfra has no operation for dkms; its dnf.packages and yum.packages accept kernel-devel of any
kernel as that of each kernel (#1910), and its server.reboot always reboots, and fails a node if the
shutdown takes longer than the delay.
"""

from collections.abc import Sequence

from pyinfra import host
from pyinfra.api import FunctionCommand, operation

from gpu_node.deploy.driver import reboot as restart
from gpu_node.deploy.engine.scripts import script
from gpu_node.deploy.engine.transactions import transaction
from gpu_node.deploy.files import replace as replacement
from gpu_node.deploy.files.operations import Commands
from gpu_node.drift.driver.boot import menu_entry, next_boot
from gpu_node.drift.driver.install_plan import is_version_of
from gpu_node.drift.driver.target import is_built, kernel_of, running
from gpu_node.facts.driver.packages import DriverPackages
from gpu_node.facts.driver.state import Driver, DriverState

# Which kernel is held on a node, and what was the default before.
KERNEL_HOLD = "/var/lib/gpu-node/kernel-hold"


@operation()
def packages(
    manager: str,
    kernels: Sequence[str] = (),
    dkms: bool = False,
    allow_disruption: bool = False,
) -> Commands:
    """
    Install dkms, and the headers of exactly these kernels.

    + manager: ``apt-get``, ``dnf`` or ``yum``
    + kernels: as ``uname -r`` prints them
    + dkms: whether to install dkms
    + allow_disruption: even while a running container has GPUs
    """
    state = _state("kernels,dkms")
    lacking = [name for name in kernels if not _has_headers(state, name)]
    has_dkms = state.dkms is not None and state.dkms.present
    if not lacking and (has_dkms or not dkms):
        host.noop("dkms and the kernels' headers are installed")
        return
    given = {"kernels": " ".join(lacking), "dkms": _word(dkms)}
    given["allow_reload"] = _word(allow_disruption)
    given["backups"] = replacement.backups()
    yield transaction("driver_packages", manager=manager, **given)


@operation()
def install(
    manager: str,
    names: Sequence[str],
    version: str,
    hold: bool = False,
    allow_disruption: bool = False,
) -> Commands:
    """
    Install the driver's packages if there is no driver, without replacing other packages. A
    transaction that would remove, replace or downgrade a package, or install a kernel, is refused.

    + manager: ``apt-get``, ``dnf`` or ``yum``
    + names: of the packages, eg ``nvidia-dkms-535``
    + version: of the driver, eg ``535.154.05``, or a branch: the installed version of it, else its
      newest
    + hold: keep them at that version when the system is updated
    + allow_disruption: even while a process uses libnccl or a GPU, or a container has GPUs
    """
    there = host.get_fact(DriverPackages, names=list(names))["versions"]
    if all(is_version_of(there.get(name, ""), version) for name in names):
        host.noop(f"{', '.join(names)} {version} are installed")
        return
    given = {
        "packages": " ".join(names),
        "version": version,
        "hold": _word(hold),
        # If none is installed, no process uses them; another driver is not changed.
        "allow": _word(allow_disruption or not there),
        "allow_reload": _word(allow_disruption),
        "run": replacement.run(),
        "backups": replacement.backups(),
    }
    yield transaction("driver_install", manager=manager, **given)


@operation()
def module(
    kernel: str, version: str, source: str = "nvidia", allow_disruption: bool = False
) -> Commands:
    """
    Build one kernel's module by dkms and install it.

    + kernel: as ``uname -r`` prints it
    + version: of the driver, eg ``535.154.05``
    + source: its name in ``dkms status``, eg ``nvidia-current`` on Debian; empty: that of the
      sources that are there
    + allow_disruption: configure half configured packages even while a running container has GPUs
    """
    there = kernel_of(_state("kernels"), kernel)
    if there is not None and is_built(there, version):
        host.noop(f"{kernel} has nvidia {version}")
        return
    given = {"allow_reload": _word(allow_disruption), "backups": replacement.backups()}
    yield script("dkms", source=source, version=version, kernel=kernel, **given)


@operation()
def hold_kernel(kernel: str = "") -> Commands:
    """
    Make a kernel the default, also after other kernels are installed; or undo that. It uses grubby,
    or a separate file with GRUB_DEFAULT. The previous default is recorded on the node, and is
    restored when the hold is removed.

    + kernel: as ``uname -r`` shows it; empty: remove the hold
    """
    state = _state("kernels,next")
    boot = state.boot
    is_so = boot is not None and (boot.held or "") == kernel
    if is_so and (not kernel or next_boot(state).kernel == kernel):
        host.noop(f"{kernel} is held" if kernel else "no kernel is held")
        return
    entry = menu_entry(boot, kernel) if boot is not None and kernel else None
    yield script(
        "hold_kernel",
        kernel=kernel,
        entry=entry or "",
        note=KERNEL_HOLD,
        backups=replacement.backups(),
    )


@operation()
def loaded(version: str, allow_disruption: bool = False, later: bool = False) -> Commands:
    """
    Load that version of the module; another version is unloaded first.

    + version: of the driver, eg ``535.154.05``
    + allow_disruption: even while a process has a libnccl mapped or holds a GPU
    + later: a reboot follows, so a module that cannot be loaded now is not a failure
    """
    modules = _state("loaded").loaded
    if modules is not None and modules.nvidia == version:
        host.noop(f"nvidia {version} is loaded")
        return
    # A module that is not loaded has no users.
    harmless = modules is not None and not modules.nvidia
    yield script(
        "module",
        version=version,
        later=_word(later),
        allow=_word(allow_disruption or harmless),
    )


@operation()
def no_nouveau(
    kernels: Sequence[str] = (), allow_disruption: bool = False, later: bool = False
) -> Commands:
    """
    Blacklist nouveau, rebuild the initramfs of kernels that contains it, and unload it.

    + kernels: those whose initramfs is rebuilt
    + allow_disruption: even while a process has a libnccl mapped or holds a GPU
    + later: a reboot follows, so a module that cannot be unloaded now is not a failure
    """
    state = _state("loaded,nouveau")
    away = state.nouveau is not None and (state.nouveau.blacklists or state.nouveau.cmdline)
    is_there = state.loaded is None or state.loaded.nouveau
    images = state.nouveau.initramfs if state.nouveau is not None else {}
    kernels = [kernel for kernel in kernels if not away or images.get(kernel, True)]
    if away and not kernels and not is_there:
        host.noop("nouveau is blacklisted")
        return
    yield script(
        "nouveau",
        kernels=" ".join(kernels),
        later=_word(later),
        backups=replacement.backups(),
        # A blacklist affects no running process; unloading a module may.
        allow=_word(allow_disruption or not is_there),
    )


@operation()
def persistence(later: bool = False, allow_disruption: bool = False) -> Commands:
    """
    Turn persistence mode on permanently: by the driver's daemon, or a unit of ours if it has none.

    + later: a reboot follows, so it is not a failure if it cannot be turned on now
    + allow_disruption: reload systemd even while a running container has GPUs
    """
    state = _state("loaded,smi,units")
    gpus = state.smi.gpus if state.smi else ()
    is_on = gpus and all(gpu.persistence for gpu in gpus)
    is_lost = state.loaded is not None and state.loaded.keeps_persistence is False
    if is_on and not is_lost and not (allow_disruption and state.waiting):
        host.noop("persistence mode is on")
        return
    given = {"allow_reload": _word(allow_disruption), "backups": replacement.backups()}
    yield script("persistence", later=_word(later), **given)


@operation()
def reboot(
    version: str,
    user: str = "root",
    drain: str = "",
    resume: str = "",
    allow_disruption: bool = False,
) -> Commands:
    """
    Reboot a node whose driver needs it, and wait for it; use it with ``_serial=True``. No further
    node is rebooted after the first that does not return with a working driver.

    + version: of the driver, eg ``535.154.05``
    + user: the training user, whose processes are jobs
    + drain: a command on this machine before the reboot, with ``{node}``; a failure means no reboot
    + resume: a command on this machine after it, with ``{node}``
    + allow_disruption: even while a process uses a GPU, a user's process runs, or a container that
      would be lost sees a GPU
    """
    if _is_right(_state("kernels,loaded"), version):
        host.noop(f"nvidia {version} is loaded, and the running kernel is installed")
        return
    # An earlier operation may have repaired it: the script on the node checks once more.
    given = {"version": version, "mark": restart.MARK, "allow": _word(allow_disruption)}
    both = [script("reboot", **given, trainer=user, look=look) for look in ("yes", "no")]
    # It looks at the node in a new session: this one ends with the reboot.
    yield FunctionCommand(restart.roll_out, [version, *both, drain, resume], {})


def _word(value: bool) -> str:
    return "yes" if value else "no"


def _state(only: str) -> DriverState:
    return DriverState.known(host.get_fact(Driver, only=only))


def _is_right(state: DriverState, version: str) -> bool:
    loaded = state.loaded
    is_loaded = loaded is not None and loaded.nvidia == version and not loaded.nouveau
    return is_loaded and running(state) is not None


def _has_headers(state: DriverState, name: str) -> bool:
    kernel = kernel_of(state, name)
    return kernel is not None and kernel.headers

"""Driver: the NVIDIA module of every kernel, what is loaded, and what may remove or replace it."""

import shlex
from collections.abc import Sequence

from typing_extensions import override

from gpu_node.facts.driver import gpus, images, kernels, loaded, packages, secure_boot, upgrades
from gpu_node.facts.driver.cuda_init import CudaInit
from gpu_node.facts.driver.gpus import Device, Process, Smi
from gpu_node.facts.driver.images import Nouveau
from gpu_node.facts.driver.kernels import Boot, Dkms, Kernels
from gpu_node.facts.driver.loaded import Cuda, Loaded
from gpu_node.facts.driver.secure_boot import SecureBoot
from gpu_node.facts.driver.upgrades import Upgrade, parse_upgrade
from gpu_node.facts.probe.base import AreaFact, Parsers, State
from gpu_node.facts.probe.protocol import Section, Unreadable, render
from gpu_node.facts.probe.readers import by_word, lines
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.probe.shell import LIMITED, assigned, shell

# Packages that install the next kernel or driver, by their names in each family.
UPDATED = {
    "kernel": ("linux-image-generic", "linux-image-amd64", "kernel", "kernel-core"),
    "driver": ("nvidia-driver", "nvidia-dkms-535", "kmod-nvidia", "akmod-nvidia", "cuda-drivers"),
}
# Prints the packages that the patterns exclude, by the same match as unattended-upgrade.
_SPARED = """
import re, sys
patterns = []
for line in sys.argv[1].splitlines():
    try:
        patterns.append(re.compile(line))
    except Exception:
        pass
for name in sys.argv[2:]:
    if any(each.match(name) for each in patterns):
        print("spared " + name)
"""


def _updates() -> str:
    names = shlex.join(name for names in UPDATED.values() for name in names)
    given = f"set -- {names}\n{assigned(spared=_SPARED.strip())}"
    return LIMITED + given + shell("driver/updates")


SECTIONS = (
    *kernels.SECTIONS,
    *loaded.SECTIONS,
    *gpus.SECTIONS,
    *images.SECTIONS,
    *secure_boot.SECTIONS,
    *upgrades.SECTIONS,
    Section("driver.updates", _updates(), light=True),
    Section("driver.units", shell("driver/units"), light=True),
)


def sections(request: ProbeRequest) -> tuple[Section, ...]:
    """Return the sections about the driver, and about its packages if some are named."""
    own = [
        gpus.smi_section(request) if section.name == "driver.smi" else section
        for section in SECTIONS
    ]
    joining = (gpus.UUIDS,) if request.joining else ()
    return (*own, *joining, *packages.sections(request.packages))


class Updates(State):
    """What installs updates automatically, and what it skips.

    `patterns` are regular expressions (of unattended-upgrades), `spared` the packages of `UPDATED`
    that match one, `globs` the patterns of exclude=, `held` packages on hold.
    """

    by: tuple[str, ...]
    patterns: tuple[str, ...]
    spared: tuple[str, ...] = ()
    globs: tuple[str, ...]
    held: tuple[str, ...]


class DriverState(State):
    """Everything about the driver that rules use.

    `library` is the version of the user-space library ("": none), `cuda` the libcuda that programs
    load, `packages` are the versions of the packages that the inventory names ("": half installed;
    None: it names none). `stale_images` are the kernels whose initramfs is older than their module,
    and whether it contains another nvidia module (None: unknown). `waiting` are files of units that
    systemd has not read yet. `uuids` of the GPUs are read where a server is to become a node.
    """

    kernels: Kernels | None
    boot: Boot | None
    dkms: Dkms | None
    loaded: Loaded | None
    library: str | None
    smi: Smi | None
    devices: tuple[Device, ...] | None
    processes: tuple[Process, ...] | None
    nouveau: Nouveau | None
    secure_boot: SecureBoot | None
    updates: Updates | None
    packages: dict[str, str] | None = None
    cuda: Cuda | None = None
    cuda_init: CudaInit | None = None
    upgrade: Upgrade | None = None
    stale_images: dict[str, bool | None] | None = None
    waiting: tuple[str, ...] | None = None
    uuids: tuple[str, ...] | None = None

    @property
    def own_devices(self) -> tuple[Device, ...] | None:
        """The GPUs on the PCI bus, but for those that virtual machines get."""
        return self.devices and tuple(each for each in self.devices if not each.is_given_away)

    @property
    def narrow_links(self) -> dict[str, str]:
        """How narrow the link of each GPU is, by its slot; empty where it is not."""
        return {each.slot: each.narrow for each in self.own_devices or ()}


def parse_updates(text: str) -> Updates:
    """Parse `by PROGRAM`, `pattern REGEX`, `spared NAME`, `excluded GLOB` and `held NAME` lines."""
    rows = by_word(text)
    if untried := next(iter(rows["untried"]), ""):
        raise Unreadable(
            "Unattended-Upgrade::Package-Blacklist: its patterns could not be tried on the node "
            f"within 3 s (python3 ended with {untried})"
        )
    off = "off" in rows  # the timer runs, but does nothing
    return Updates(
        by=tuple(by for by in rows["by"] if not (off and by == "unattended-upgrades")),
        patterns=tuple(rows["pattern"]),
        spared=tuple(rows["spared"]),
        globs=tuple(rows["excluded"]),
        held=tuple(rows["held"]),
    )


PARSERS: Parsers = {
    "driver.updates": ("updates", parse_updates),
    "driver.upgrade": ("upgrade", parse_upgrade),
    **packages.PARSERS,
    "driver.units": ("waiting", lines),
    **kernels.PARSERS,
    **loaded.PARSERS,
    **gpus.PARSERS,
    **secure_boot.PARSERS,
    **images.PARSERS,
}


class Driver(AreaFact):
    """Returns `DriverState` as a dict: {"kernels": {"running": "...", "installed": [...]}, ...}.

    `only` names sections, separated by commas (kernels,dkms), if not all are needed: the others are
    None.
    """

    sections_for = staticmethod(sections)
    state = DriverState
    parsers = PARSERS

    @override
    def command(
        self, environments: Sequence[str] | str = (), deep: bool = False, only: str = ""
    ) -> str:
        names = [f"driver.{word}" for word in only.split(",") if word]
        self.asked = [section for section in SECTIONS if not names or section.name in names]
        return render(self.asked)

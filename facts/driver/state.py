"""Driver: the NVIDIA module of every kernel, what is loaded, and what may take it away."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

from facts import gpus, images, kernels, loaded, packages, secure_boot
from facts.area import AreaFact, State
from facts.gpus import Device, Process, Smi
from facts.images import Nouveau
from facts.kernels import Boot, Dkms, Kernels
from facts.loaded import Cuda, Loaded
from facts.named import Named
from facts.probe import Readings, Section, render
from facts.secure_boot import SecureBoot

# What installs updates by itself, and the packages that it is told to leave.
_UPDATES = r"""
if command -v unattended-upgrade >/dev/null 2>&1; then
  apt-config dump 2>/dev/null | sed -n \
    -e '/^APT::Periodic::Enable "0"/s/.*/off/p' \
    -e 's/^APT::Periodic::Unattended-Upgrade "\([1-9]\|always\).*/by unattended-upgrades/p' \
    -e 's/^Unattended-Upgrade::Package-Blacklist:: "\(.*\)";/pattern \1/p'
  apt-mark showhold 2>/dev/null | sed 's/^/held /'
fi
enabled() {
  find /etc/systemd/system -type l -name "$1" 2>/dev/null | grep -q .
}
applies() { grep -Eqs '^[[:space:]]*apply_updates[[:space:]]*=[[:space:]]*(yes|true|1|on)' "$1"; }
if enabled yum-cron.service && applies /etc/yum/yum-cron.conf; then echo 'by yum-cron'; fi
if enabled dnf-automatic-install.timer ||
  { enabled 'dnf*-automatic.timer' && applies /etc/dnf/automatic.conf; }; then
  echo 'by dnf-automatic'
fi
awk '/^[ \t]*exclude(pkgs)?[ \t]*=/ {
  sub(/^[^=]*=/, "")
  count = split($0, globs, /[, \t]+/)
  for (i = 1; i <= count; i++) if (globs[i] != "") print "excluded " globs[i] }' \
  /etc/yum.conf /etc/dnf/dnf.conf 2>/dev/null
exit 0
"""

# Files of ours that systemd has not read since they were written, as a reload of it takes the GPUs
# from running containers.
_UNITS = r"""
[ -d /run/systemd/system ] || exit 0
for file in /etc/systemd/system/nvidia-persistenced.service.d/gpu-node.conf \
  /etc/systemd/system/gpu-node-persistence.service; do
  [ -f "$file" ] || continue
  unit=${file#/etc/systemd/system/}
  state=$(systemctl show -p NeedDaemonReload "${unit%%.service*}.service") || exit 1
  [ "$state" != NeedDaemonReload=yes ] || echo "$file"
done
"""

SECTIONS = (
    *kernels.SECTIONS,
    *loaded.SECTIONS,
    *gpus.SECTIONS,
    *images.SECTIONS,
    *secure_boot.SECTIONS,
    Section("driver.updates", _UPDATES),
    Section("driver.units", _UNITS),
)


def sections(named: Named) -> tuple[Section, ...]:
    """Return the sections about the driver with that about its packages, where some are named."""
    return (*SECTIONS, *packages.sections(named.packages))


class Updates(State):
    """What installs updates by itself, and what it leaves alone.

    `patterns` are regular expressions (of unattended-upgrades), `globs` those of exclude=, `held`
    packages on hold.
    """

    by: tuple[str, ...]
    patterns: tuple[str, ...]
    globs: tuple[str, ...]
    held: tuple[str, ...]


class DriverState(State):
    """Everything about the driver that a rule asks for.

    `library` is the version of the user-space library ("": none), `cuda` the libcuda that programs
    load, `packages` are the versions of
    those that the inventory names ("": there by half; None: it names none). `stale_images` are the
    kernels whose initramfs is older than their module, and whether it holds another one of nvidia
    (None: unknown). `waiting` are files of units that systemd has not read yet.
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
    stale_images: dict[str, bool | None] | None = None
    waiting: tuple[str, ...] | None = None


def parse_updates(text: str) -> Updates:
    """Parse `by PROGRAM`, `pattern REGEX`, `excluded GLOB` and `held NAME` lines."""
    rows = [line.partition(" ")[::2] for line in text.splitlines()]
    if ("off", "") in rows:  # the timer comes, and does nothing
        rows = [row for row in rows if row != ("by", "unattended-upgrades")]
    words = {"by": "by", "patterns": "pattern", "globs": "excluded", "held": "held"}
    return Updates.model_validate(
        {name: [said for kind, said in rows if kind == word] for name, word in words.items()}
    )


def parse(readings: Readings) -> DriverState:
    """Return the area's state from the probe's answers."""
    own = {
        "updates": readings.take("driver.updates", parse_updates),
        "packages": packages.parse(readings),
        "waiting": readings.take("driver.units", lambda text: tuple(text.splitlines())),
    }
    return DriverState.model_validate(
        {
            **kernels.parse(readings),
            **loaded.parse(readings),
            **gpus.parse(readings),
            **secure_boot.parse(readings),
            **images.parse(readings),
            **own,
        },
    )


class Driver(AreaFact):
    """Returns `DriverState` as a dict: {"kernels": {"running": "...", "installed": [...]}, ...}.

    `only` names sections with commas, as kernels,dkms, where not all are needed: the others are
    None.
    """

    sections = SECTIONS
    parse = staticmethod(parse)

    @override
    def command(
        self, environments: Sequence[str] | str = (), deep: bool = False, only: str = ""
    ) -> str:
        names = [f"driver.{word}" for word in only.split(",") if word]
        self.asked = [each for each in SECTIONS if not names or each.name in names]
        return render(self.asked)

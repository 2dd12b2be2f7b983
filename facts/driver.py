"""Driver: the NVIDIA module of every kernel, what is loaded, and what may take it away."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

from facts import gpus, kernels, loaded, packages, secure_boot
from facts.area import AreaFact, State
from facts.gpus import Device, Process, Smi
from facts.kernels import Boot, Dkms, Kernels
from facts.loaded import Cuda, Loaded
from facts.named import Named
from facts.probe import Readings, Section, render
from facts.secure_boot import SecureBoot

# An initramfs carries the blacklist as it was when it was made. To list one takes a second, so only
# one that is older than the blacklist is listed.
_NOUVEAU = (
    kernels.SBIN
    + r"""
word='[[:space:]]+nouveau'
barred="^[[:space:]]*(blacklist${word}|install${word}[[:space:]]+/(usr/)?bin/(true|false))[[:space:]]*$"
barrier=
for folder in /etc /run /usr/lib /lib; do
  for f in "$folder"/modprobe.d/*.conf; do
    grep -Eqs "$barred" "$f" || continue
    printf 'blacklist %s\n' "$f"
    barrier=${barrier:-$f}
  done
done
grep -Eqs '(^| )([a-z.]*blacklist=[^ ]*nouveau|nouveau\.modeset=0)' /proc/cmdline && echo cmdline
holds() {
  # When the blacklist came here: packages keep the time of its making.
  if [ -n "$barrier" ] && [ "$(stat -c %Y "$1")" -gt "$(stat -c %Z "$barrier")" ]; then
    echo no
    return
  fi
  for lister in lsinitramfs lsinitrd; do
    [ -r "$1" ] && command -v $lister >/dev/null 2>&1 || continue
    case $($lister "$1" 2>/dev/null) in
      '') ;;
      */nouveau.ko*) echo yes; return ;;
      *) echo no; return ;;
    esac
  done
  echo closed
}
for d in /lib/modules/*; do
  k=${d##*/}
  set -- "$d"/kernel/drivers/gpu/drm/nouveau/nouveau.ko*
  [ -e "$1" ] || continue
  printf 'kernel %s\n' "$k"
  for image in "/boot/initramfs-$k.img" "/boot/initrd.img-$k"; do
    [ ! -e "$image" ] || printf 'initramfs %s %s\n' "$k" "$(holds "$image")"
  done
done
"""
)
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

SECTIONS = (
    *kernels.SECTIONS,
    *loaded.SECTIONS,
    *gpus.SECTIONS,
    Section("driver.nouveau", _NOUVEAU, seconds=30),
    *secure_boot.SECTIONS,
    Section("driver.updates", _UPDATES),
)


def sections(named: Named) -> tuple[Section, ...]:
    """Return the sections about the driver with that about its packages, where some are named."""
    return (*SECTIONS, *packages.sections(named.packages))


class Nouveau(State):
    """What keeps nouveau away: files of modprobe.d and the kernel's command line.

    `kernels` are those that have the module, `initramfs` those whose initramfs holds it (None where
    that could not be read).
    """

    blacklists: tuple[str, ...]
    cmdline: bool
    kernels: tuple[str, ...]
    initramfs: dict[str, bool | None]


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
    those that the inventory names ("": there by half; None: it names none).
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


def parse_nouveau(text: str) -> Nouveau:
    """Parse `blacklist FILE`, `cmdline`, `kernel NAME` and `initramfs KERNEL yes|no|closed`."""
    rows = [line.split() for line in text.splitlines()]
    has = {"yes": True, "no": False, "closed": None}
    return Nouveau(
        blacklists=tuple(row[1] for row in rows if row[0] == "blacklist"),
        cmdline=["cmdline"] in rows,
        kernels=tuple(row[1] for row in rows if row[0] == "kernel"),
        initramfs={row[1]: has[row[2]] for row in rows if row[0] == "initramfs"},
    )


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
        "nouveau": readings.take("driver.nouveau", parse_nouveau),
        "updates": readings.take("driver.updates", parse_updates),
        "packages": packages.parse(readings),
    }
    return DriverState.model_validate(
        {
            **kernels.parse(readings),
            **loaded.parse(readings),
            **gpus.parse(readings),
            **secure_boot.parse(readings),
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

"""Newcomer: what a server says of itself before it becomes a node: system, rights, space, names."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from facts.area import State
from facts.kernels import SBIN
from facts.limited import LIMITED
from facts.probe import Section, Unreadable

# Where the deploy puts something; an inventory adds to them.
PATHS = ("/", "/usr", "/boot", "/var", "/opt", "/tmp")

# CentOS 6 and older have no os-release; the minor release of CentOS is in a file of its own.
_SYSTEM = r"""
os=/etc/os-release
[ -r "$os" ] || os=/usr/lib/os-release
value() { sed -n "s/^$1=//p" "$os" 2>/dev/null | tail -n 1 | tr -d "\"'"; }
name=$(value PRETTY_NAME)
[ ! -r /etc/redhat-release ] || name=$(head -n 1 /etc/redhat-release)
printf 'id %s\nversion %s\nname %s\n' "$(value ID)" "$(value VERSION_ID)" "$name"
printf 'machine %s\nkernel %s\n' "$(uname -m)" "$(uname -r)"
"""
_ACCOUNT = r"""
printf 'user %s\nuid %s\n' "$(id -un)" "$(id -u)"
[ "$(id -u)" != 0 ] || exit 0
if ! command -v sudo >/dev/null 2>&1; then
  echo 'sudo it is not installed'
elif said=$(sudo -n true 2>&1); then
  echo 'sudo works'
else
  printf 'sudo %s\n' "$(printf '%s\n' "$said" | tail -n 1)"
fi
"""
# Of a path that is not there yet: the file system that it would be made on.
_SPACE = r"""
for path in PATHS; do
  place=$path
  while [ ! -e "$place" ] && [ "$place" != / ]; do
    place=${place%/*}
    place=${place:-/}
  done
  printf 'bytes\t%s\t%s\n' "$path" "$(df -Pk "$place" 2>/dev/null | sed -n '$p')"
  printf 'inodes\t%s\t%s\n' "$path" "$(df -Pi "$place" 2>/dev/null | sed -n '$p')"
done
awk '$4 ~ /^ro(,|$)/ { print "closed\t" $2 }' /proc/mounts
"""
# The full name may need a resolver, which may be silent.
_IDENTITY = (
    LIMITED
    + r"""
own=$(cat /etc/machine-id 2>/dev/null || cat /var/lib/dbus/machine-id 2>/dev/null)
printf 'machine-id %s\n' "$own"
printf 'hostname %s\n' "$(hostname 2>/dev/null || uname -n)"
limited 4 hostname -f
[ "$code" = 0 ] || output=
printf 'full %s\n' "$output"
"""
)
# The driver's own word; it has question marks until something has woken the GPU. Without a module
# nvidia-smi would load it.
_UUIDS = r"""
told=$(cat /proc/driver/nvidia/gpus/*/information 2>/dev/null |
  sed -n 's/^GPU UUID:[[:space:]]*//p')
case $told in
  '' | *\?*)
    [ ! -d /sys/module/nvidia ] || ! command -v nvidia-smi >/dev/null 2>&1 ||
      told=$(nvidia-smi -L 2>/dev/null | sed -n 's/.*(UUID: \(GPU-[^)]*\)).*/\1/p') ;;
esac
[ -z "$told" ] || printf '%s\n' "$told"
"""
# NVIDIA's installer leaves its uninstaller; a module that no package owns came by it, or by dkms.
_RUNFILE = (
    SBIN
    + r"""
for f in /usr/bin/nvidia-uninstall /usr/bin/nvidia-installer; do
  [ ! -e "$f" ] || printf 'installer %s\n' "$f"
done
owned() {
  if [ -s /var/lib/dpkg/status ] && command -v dpkg-query >/dev/null 2>&1; then
    dpkg-query -S "$1" >/dev/null 2>&1 || dpkg-query -S "/usr$1" >/dev/null 2>&1
  else
    rpm -qf "$1" >/dev/null 2>&1
  fi
}
for f in /lib/modules/*/kernel/drivers/video/nvidia.ko*; do
  [ ! -e "$f" ] || owned "$f" || printf 'module %s\n' "$f"
done
"""
)


def sections(paths: Iterable[str]) -> tuple[Section, ...]:
    """Return the sections about a server itself; `paths` are further ones whose space counts."""
    words = " ".join(shlex.quote(path) for path in dict.fromkeys((*PATHS, *paths)))
    return (
        Section("preflight.system", _SYSTEM),
        Section("preflight.account", _ACCOUNT),
        Section("preflight.space", _SPACE.replace("PATHS", words)),
        IDENTITY,
        UUIDS,
        Section("preflight.runfile", _RUNFILE, seconds=20),
    )


IDENTITY = Section("preflight.identity", _IDENTITY)
UUIDS = Section("preflight.uuids", _UUIDS, seconds=30)


class System(State):
    """The release as os-release tells it: ID, VERSION_ID ("" where it has none), name; uname."""

    id: str
    version: str
    name: str
    machine: str
    kernel: str


class Account(State):
    """Who was asked; `sudo` is None for root, "works", or what sudo said instead."""

    user: str
    uid: int
    sudo: str | None


class Space(State):
    """A path and the file system it is on: free bytes, free inodes (None: it counts none)."""

    path: str
    mount: str
    free: int
    inodes: int | None
    read_only: bool


class Identity(State):
    """What tells a machine from others: its machine-id ("": none), its name, its full name."""

    machine_id: str
    hostname: str
    full: str


class Runfile(State):
    """Traces of NVIDIA's installer, and modules of the driver that no package owns."""

    installers: tuple[str, ...]
    modules: tuple[str, ...]


def _words(text: str) -> dict[str, str]:
    """Parse lines of a word and its value; the last one counts."""
    return {word: value.strip() for word, _, value in (x.partition(" ") for x in text.splitlines())}


def parse_system(text: str) -> System:
    """Parse lines `id`, `version`, `name`, `machine` and `kernel`."""
    said = _words(text)
    if not said["machine"] or not (said["id"] or said["name"]):
        raise Unreadable("neither os-release nor redhat-release tells the system")
    return System.model_validate(said)


def parse_account(text: str) -> Account:
    """Parse lines `user`, `uid` and, of another one than root, `sudo`."""
    said = _words(text)
    return Account(user=said["user"], uid=int(said["uid"]), sudo=said.get("sudo"))


def parse_space(text: str) -> tuple[Space, ...]:
    """Parse `bytes PATH` and `inodes PATH` with df's lines, and `closed MOUNT`; tabs part them."""
    rows = [line.split("\t") for line in text.splitlines()]
    closed = {row[1] for row in rows if row[0] == "closed"}
    inodes = {row[1]: _df(row[2]) for row in rows if row[0] == "inodes"}
    found = []
    for path, line in ((row[1], row[2]) for row in rows if row[0] == "bytes"):
        told = _df(line)
        if told is None:
            raise Unreadable(f"df tells nothing of {path}")
        counted = inodes.get(path)
        found.append(
            Space(
                path=path,
                mount=told[2],
                free=told[1] * 1024,
                inodes=counted[1] if counted and counted[0] else None,
                read_only=told[2] in closed,
            )
        )
    return tuple(found)


def _df(line: str) -> tuple[int, int, str] | None:
    """Return total, free and mount of a line of df; names in it may have blanks."""
    found = re.search(r"\s(\d+|-)\s+(\d+|-)\s+(-?\d+|-)\s+(\d+%|-)\s+(/.*)$", line)
    if found is None:
        return None
    total, free = (int(found[n]) if found[n] != "-" else 0 for n in (1, 3))
    return total, max(free, 0), found[5]


def parse_identity(text: str) -> Identity:
    """Parse lines `machine-id`, `hostname` and `full`; an image says uninitialized for none."""
    said = _words(text)
    own = said["machine-id"]
    return Identity(
        machine_id="" if own == "uninitialized" else own,
        hostname=said["hostname"],
        full=said["full"],
    )


def parse_uuids(text: str) -> tuple[str, ...]:
    """Parse a GPU's UUID a line."""
    found = tuple(text.split())
    odd = [each for each in found if not each.startswith("GPU-") or "?" in each]
    if odd:
        raise Unreadable(f"no UUID of a GPU: {odd[0]}")
    return found


def parse_runfile(text: str) -> Runfile:
    """Parse `installer FILE` and `module FILE` lines."""
    rows = [line.partition(" ")[::2] for line in text.splitlines()]
    return Runfile(
        installers=tuple(file for word, file in rows if word == "installer"),
        modules=tuple(file for word, file in rows if word == "module"),
    )

"""libnccl of the system: its packages, the loader's ways to it, and the programs that take it."""

from __future__ import annotations

from typing import Literal, get_args

from facts import package_locks
from facts.area import State
from facts.package_locks import Hold, LockLine, Locks
from facts.probe import Readings, Section, Unreadable

# NVIDIA's packages.
RPM = ("libnccl", "libnccl-devel", "libnccl-static")
DEB = ("libnccl2", "libnccl-dev")

# A name may end in letters of its own: libnccl-devel, but also libnccl-rdma-sharp-plugin.
_PACKAGES = r"""
# Only where the system has a database: where it has none, as on Debian, rpm would make one.
for db in /var/lib/rpm /usr/lib/sysimage/rpm; do
  [ -e "$db/Packages" ] || [ -e "$db/Packages.db" ] || [ -e "$db/rpmdb.sqlite" ] || continue
  rpm --dbpath "$db" -qa --qf 'rpm %{NAME} %{VERSION}-%{RELEASE} %{ARCH} -\n' 'libnccl*' || exit 1
  break
done
if command -v dpkg-query >/dev/null 2>&1; then
  dpkg-query -W -f 'deb ${Package} ${Version} ${Architecture} ${db:Status-Abbrev}\n' 'libnccl*' \
    2>/dev/null || [ $? -eq 1 ] || exit 1  # 1: none matches
fi
"""
# Where dpkg knows packages the system is of its family, whatever else is installed.
_MANAGER = """
[ -s /var/lib/dpkg/status ] && command -v apt-get >/dev/null 2>&1 && echo apt-get && exit 0
for manager in dnf yum; do
  command -v $manager >/dev/null 2>&1 && echo $manager && exit 0
done
echo none
"""
# Sizes and links; the sums would take seconds. dpkg keeps no sizes: there, what is missing.
_FILES = rf"""
for name in {" ".join(RPM)}; do
  [ -d /var/lib/rpm ] || [ -d /usr/lib/sysimage/rpm ] || break
  rpm -q "$name" >/dev/null 2>&1 || continue
  rpm -V --nodeps --nofiledigest --nomtime "$name" 2>/dev/null | awk '
    $1 == "missing" || $1 ~ /^S/ || $1 ~ /^....L/ {{ print $NF }}'
done
command -v dpkg-query >/dev/null 2>&1 || exit 0
for name in {" ".join(DEB)}; do
  dpkg-query -L "$name" 2>/dev/null | while IFS= read -r path; do
    [ -e "$path" ] || echo "$path"
  done
done
"""
# The environment of a launcher's non-interactive shell: the probe runs in one.
_LOADER = """
echo "$LD_LIBRARY_PATH"
echo "$gn_preload"
ldconfig=$(command -v ldconfig || echo /sbin/ldconfig)
[ -x "$ldconfig" ] || exit 0
cache=$("$ldconfig" -p 2>/dev/null) || exit 1
echo "$cache" | sed -n 's/^[[:space:]]*libnccl\\.so\\.2 .*=> //p'
"""
# Where a shell's variables come from, so that a finding can name the line.
_SETTINGS = r"""
for f in /etc/environment /etc/profile /etc/profile.d/*.sh /etc/bashrc /etc/bash.bashrc \
  "$HOME/.bashrc" "$HOME/.bash_profile" "$HOME/.profile" /etc/ld.so.preload; do
  [ -f "$f" ] && [ -r "$f" ] || continue
  awk -v f="$f" '/^[^#]*LD_(PRELOAD|LIBRARY_PATH)=/ || (f ~ /preload$/ && /nccl/) {
    print f ":" NR ": " substr($0, 1, 200) }' "$f"
done
"""
# The programs of nccl-tests, where people put them: they load the system's libnccl.
_PROGRAMS = r"""
for p in $(command -v all_reduce_perf) /opt/nccl-tests/build/all_reduce_perf \
  /usr/local/nccl-tests/build/all_reduce_perf "$HOME/nccl-tests/build/all_reduce_perf"; do
  [ -x "$p" ] || continue
  taken=$(LD_PRELOAD=$gn_preload ldd "$p" 2>/dev/null |
    sed -n 's/.*libnccl\.so\.2 => \(\/[^ ]*\).*/\1/p')
  [ -z "$taken" ] || printf '%s\n%s\n' "$p" "$taken"
done
"""

# The driver's own word, at once; nvidia-smi would wake each GPU for it, which takes seconds.
_GPUS = r"""
for f in /proc/driver/nvidia/gpus/*/information; do
  [ ! -r "$f" ] || sed -n 's/^Model:[[:space:]]*//p' "$f"
done
"""

SECTIONS = (
    Section("nccl.packages", _PACKAGES),
    Section("nccl.manager", _MANAGER),
    package_locks.SECTION,
    Section("nccl.files", _FILES, seconds=20),
    Section("nccl.loader", _LOADER),
    Section("nccl.settings", _SETTINGS),
    Section("nccl.programs", _PROGRAMS),
    Section("nccl.gpus", _GPUS),
)


Manager = Literal["apt-get", "dnf", "yum", "none"]
_MANAGERS: tuple[Manager, ...] = get_args(Manager)


class Package(State):
    """A libnccl package of the system: `version` with its release, as in 2.18.1-1+cuda12.1."""

    kind: Literal["rpm", "deb"]
    name: str
    version: str
    arch: str
    held: bool


class Loader(State):
    """What decides where a library is found: the shell's variables, and ld.so.cache in order."""

    library_path: str
    preload: str
    cache: tuple[str, ...]


class Program(State):
    """A program outside of any environment, and the libnccl that it loads."""

    path: str
    loads: str


def parse_packages(text: str) -> tuple[Package, ...]:
    """Parse `KIND name version arch status`; a deb that is only configured is not there.

    They are sorted: rpm tells them in the order of its database, which differs between nodes.
    """
    rows = sorted(line.split() for line in text.splitlines() if line.strip())
    return tuple(
        Package.model_validate(
            {"kind": kind, "name": name, "version": version, "arch": arch}
            | {"held": status.startswith("h")}
        )
        for kind, name, version, arch, status in rows
        if kind == "rpm" or status[1:2] == "i"
    )


def _lines(text: str) -> tuple[str, ...]:
    return tuple(text.splitlines())


def parse_loader(text: str) -> Loader:
    """Parse LD_LIBRARY_PATH, LD_PRELOAD, then a path a line."""
    library_path, preload, *cache = [*text.split("\n"), "", ""][: max(2, text.count("\n") + 1)]
    return Loader(library_path=library_path, preload=preload, cache=tuple(filter(None, cache)))


def parse_manager(text: str) -> Manager:
    """Parse the name of the package manager."""
    for name in _MANAGERS:
        if text.strip() == name:
            return name
    raise Unreadable(f"no package manager: {text.strip()!r}")


def parse_programs(text: str) -> tuple[Program, ...]:
    """Parse a program and the library it loads, a line each; one in two places is told once."""
    lines = text.splitlines()
    pairs = dict(zip(lines[::2], lines[1::2], strict=True))
    return tuple(Program(path=path, loads=loads) for path, loads in pairs.items())


class SystemState(State):
    """The system's half of the area.

    `manager` installs packages (none: no known one does), `locks` are versionlock's lines,
    `lock_lines` all lines that hold packages back, `holds` those that our note lists,
    `has_repository` whether a run of ours added its repository, `files` those of the packages that
    are missing or changed, `settings` the lines of start files that set what the loader reads, as
    PATH:LINE: TEXT, and `gpus` the models that the driver names: none where it is not loaded.
    """

    packages: tuple[Package, ...] | None
    manager: Manager | None
    locks: tuple[str, ...] | None
    lock_lines: tuple[LockLine, ...] | None
    holds: tuple[Hold, ...] | None
    has_repository: bool | None
    files: tuple[str, ...] | None
    loader: Loader | None
    settings: tuple[str, ...] | None
    programs: tuple[Program, ...] | None
    gpus: tuple[str, ...] | None


def parse(readings: Readings) -> dict[str, object]:
    """Return the values of SystemState's fields."""
    return {
        **_locks(readings.take("nccl.locks", package_locks.parse)),
        "packages": readings.take("nccl.packages", parse_packages),
        "manager": readings.take("nccl.manager", parse_manager),
        "files": readings.take("nccl.files", _lines),
        "loader": readings.take("nccl.loader", parse_loader),
        "settings": readings.take("nccl.settings", _lines),
        "programs": readings.take("nccl.programs", parse_programs),
        "gpus": readings.take("nccl.gpus", _lines),
    }


def _locks(found: Locks | None) -> dict[str, object]:
    """Return the fields about what holds packages back; None where that could not be read."""
    if found is None:
        return dict.fromkeys(("locks", "lock_lines", "holds", "has_repository"))
    return {
        "locks": tuple(each.text for each in found.lines if each.kind == "versionlock"),
        "lock_lines": found.lines,
        "holds": found.holds,
        "has_repository": found.has_repository,
    }

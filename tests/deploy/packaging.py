"""A machine whose package managers are stand-ins: files say what they offer, plan and have."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from pyinfra.api import StringCommand

from tests.node_scripts import Ended, run_apart

# $HERE/plan: what apt or yum would do, $HERE/lifted: what yum would do without excludes;
# $HERE/offers and $HERE/needs: `NAME VERSION` a line; $HERE/exactly: `NAME NEEDED VERSION [OWN]`,
# which apt refuses until NEEDED, or NAME at OWN, is named; $HERE/there: `NAME VERSION STATUS`.
_PROGRAMS = {
    "apt-get": """
echo "apt-get $*" >>"$HERE/called"
kind=update
for word; do case $word in -s) kind=plan ;; install) [ $kind = plan ] || kind=install ;; esac; done
[ $kind != update ] || exit 0
[ ! -e "$HERE/refuses" ] || { cat "$HERE/refuses"; exit 100; }
while read -r name needed version own; do
  case " $* " in *" $needed=$version "* | *" $name=$own "*) continue ;; esac
  echo " $name : Depends: $needed (= $version) but 535.183.01 is to be installed"
  echo "        Depends: $needed (= $version) but 535.183.01 is to be installed"
  broken=yes
done <"$HERE/exactly"
if [ -n "$broken" ]; then
  echo 'E: Unable to correct problems, you have held broken packages.'
  exit 100
fi
names=" " is=$(cat "$HERE/becomes" 2>/dev/null || echo installed)
for word; do
  case $word in -* | *::*) continue ;; *=*) ;; rsync) word=rsync=3.2.7 ;; *) continue ;; esac
  names="$names${word%%=*} "
  if [ $kind = plan ]; then
    echo "Inst ${word%%=*} (${word#*=} lab [amd64])"
    continue
  fi
  echo "${word%%=*} ${word#*=} $is" >>"$HERE/there"
  [ "${word%%=*}" != rsync ] || ln -s /bin/true "$HERE/bin/rsync"
done
while read -r name version; do
  case $names in *" $name "*) continue ;; esac
  [ $kind = install ] || echo "Inst $name ($version lab [amd64])"
  [ $kind = plan ] || echo "$name $version installed" >>"$HERE/there"
done <"$HERE/needs"
[ $kind = install ] || cat "$HERE/plan"
[ $kind = plan ] || [ ! -e "$HERE/becomes" ] || { echo 'E: Sub-process dpkg failed'; exit 100; }
""",
    "apt-cache": """
awk -v name="$2" '$1 == name { print " " name " | " $2 " | http://lab" }' "$HERE/offers"
""",
    "apt-mark": 'echo "apt-mark $*" >>"$HERE/called"',
    "dpkg": "exit 0",
    "dpkg-query": """
for name; do :; done
awk -v name="$name" '$1 == name { print $3 " " $2; found = 1 } END { exit !found }' "$HERE/there" |
  tail -n 1 | grep .
""",
    "yum": """
echo "yum $*" >>"$HERE/called"
case "$*" in
  --version) cat "$HERE/version" ;;
  *--assumeno*' -C '*) [ ! -e "$HERE/cacheless" ] || { echo 'no cache for base'; exit 1; } ;;
esac
case "$*" in
  --version) ;;
  *--disableexcludes=all*--assumeno*) cat "$HERE/lifted"; exit 1 ;;
  *--assumeno*) cat "$HERE/plan"; exit 1 ;;
  *'list available'*) for name; do :; done
    awk -v name="$name" '$1 == name { print name ".x86_64 " $2 " lab" }' "$HERE/offers" ;;
  *versionlock*) [ ! -e "$HERE/unlocked" ] ;;
  *install*)
    case "$*" in *' rsync') ln -s /bin/true "$HERE/bin/rsync" ;; esac
    cat "$HERE/after" >>"$HERE/there" ;;
esac
""",
    "rpm": """
for name; do :; done
found=$(awk -v name="$name" '$1 == name { print $2 }' "$HERE/there" | tail -n 1)
[ -n "$found" ] || { echo "package $name is not installed"; exit 1; }
echo "$found"
""",
    "ldconfig": 'cat "$HERE/libraries"',
}


@dataclass(frozen=True)
class Machine:
    """Its files; what is written to one of them is what the package manager says next."""

    folder: Path
    beside_others: bool = False

    def write(self, name: str, *lines: str) -> None:
        """Put lines into a file."""
        (self.folder / name).write_text("".join(f"{line}\n" for line in lines))

    def read(self, name: str) -> list[str]:
        """Return the lines of a file."""
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def installs(self) -> list[str]:
        """Return the calls that would have changed something."""
        lines = [each for each in self.read("called") if " install" in each]
        return [each for each in lines if " -s " not in each and "--assumeno" not in each]

    def run(self, command: StringCommand, shell: str, before: str = "") -> Ended:
        """Run a script, with nothing of this machine's own driver and packages to be seen."""
        hidden = "[ ! -d /sys/module ] || mount -t tmpfs none /sys/module\n"
        # Its apt may be at work; a lock of another tree is none of these.
        hidden += "[ ! -d /var/lib/dpkg ] || mount -t tmpfs none /var/lib/dpkg\n"
        return run_apart(command, shell, hidden + before, beside_others=self.beside_others)


@pytest.fixture
def machine(tmp_path: Path, programs: Path) -> Machine:
    """A bare machine: nothing of a driver is there, nothing is offered."""
    programs.mkdir(exist_ok=True)
    for name, text in _PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/sh\nHERE={tmp_path}\n{text}")
        (programs / name).chmod(0o755)
    found = Machine(tmp_path)
    # The scripts run as root, and add to the file of calls.
    for name in (
        "offers",
        "needs",
        "exactly",
        "there",
        "plan",
        "after",
        "libraries",
        "version",
        "called",
    ):
        found.write(name)
    return found

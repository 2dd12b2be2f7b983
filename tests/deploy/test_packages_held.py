"""packages_rpm.sh and packages_deb.sh over stand-ins: what is tried first, held and noted."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_node.deploy.engine.scripts import script
from tests.deploy.packaging import Machine
from tests.deploy.packaging import machine as machine
from tests.node_scripts import Ended

VERSION = "2.18.1-1+cuda12.1"
OLD = "2.19.3-1+cuda12.2"
RPMS = ("libnccl", "libnccl-devel", "libnccl-static")
DEBS = ("libnccl2", "libnccl-dev")
# $HERE/list is versionlock's; $HERE/dead: no mirror answers; $HERE/unlocked: there is no plugin.
_PROGRAMS = {
    "yum": r"""
echo "yum $*" >>"$HERE/called"
for last; do :; done
case "$*" in
  --version) cat "$HERE/version" ;;
  *'versionlock list') [ ! -e "$HERE/unlocked" ] ;;
  *'versionlock add '*)
    for each; do case $each in libnccl*) echo "0:$each.*" >>"$HERE/list" ;; esac; done ;;
  *'versionlock delete '*)
    grep -vFx -- "$last" "$HERE/list" >"$HERE/left"
    mv "$HERE/left" "$HERE/list" ;;
  *install*)
    [ ! -e "$HERE/dead" ] || { echo 'Cannot find a valid baseurl for repo: base/7'; exit 1; }
    case "$*" in *--assumeno*) echo 'Exiting on user command'; exit 1 ;; esac
    rm -f "$HERE/unlocked" ;;
esac
""",
    "yumdownloader": r"""
echo "yumdownloader $*" >>"$HERE/called"
folder=''
for each; do
  case $folder$each in
    --destdir) folder=next ;;
    next*) folder=$each ;;
    *.x86_64) echo package >"$folder/$each.rpm" ;;
  esac
done
""",
    "rpm": r"""
echo "rpm $*" >>"$HERE/called"
case $1 in
  -q)
    case "$*" in *NAME*) part=0 ;; *) part=2 ;; esac
    for name; do
      awk -v name="$name" -v part=$part '$1 == name { print $part }' "$HERE/there"
    done | grep . ;;
  -qp) cat "$HERE/obsoletes" ;;
  -K) echo 'x.rpm: rsa sha1 (md5) pgp md5 OK' ;;
  -U)
    for name in libnccl libnccl-devel libnccl-static; do
      echo "$name VERSION"
    done >"$HERE/there" ;;
esac
""",
    "uname": "echo x86_64",
    "apt-mark": r"""
echo "apt-mark $*" >>"$HERE/called"
case $1 in showhold) cat "$HERE/held" ;; esac
""",
    "dpkg-query": r"""
case $1 in -L) echo /; exit ;; esac
for name; do :; done
awk -v name="$name" '$1 == name { print "installed " $2 }' "$HERE/there"
""",
    "apt-get": r"""
echo "apt-get $*" >>"$HERE/called"
case "$*" in
  *' -s '*)
    for name in libnccl2 libnccl-dev; do echo "Inst $name [OLD] (VERSION lab [amd64])"; done
    [ ! -e "$HERE/plan" ] || cat "$HERE/plan" ;;
  *' install '*)
    [ ! -e "$HERE/fails" ] || { cat "$HERE/fails"; exit 100; }
    for name in libnccl2 libnccl-dev; do echo "$name VERSION"; done >"$HERE/there" ;;
esac
""",
    "apt-cache": "echo 'libnccl2 | VERSION | http://lab'",
}


@pytest.fixture
def node(machine: Machine) -> Machine:
    """A machine on which libnccl of another version is installed and locked."""
    for name, text in _PROGRAMS.items():
        program = machine.folder / "bin" / name
        program.write_text(f"#!/bin/sh\nHERE={machine.folder}\n{text.replace('VERSION', VERSION)}")
        program.chmod(0o755)
    machine.write("version", "3.4.3")
    machine.write("there", *(f"{name} {OLD}" for name in RPMS))
    machine.write("list", "# for job 7", f"0:libnccl-{OLD}.*", "0:bash-5-1.*")
    machine.write("held", "libnccl2")
    machine.write("obsoletes", "libnccl < 2", "nccl-tools < 3", "not-here", "")
    return machine


def rpms(node: Machine, shell: str, **given: str) -> Ended:
    """Install and hold the rpms."""
    variables = {
        **{"manager": "yum", "names": " ".join(RPMS), "version": VERSION, "url": "", "key": ""},
        **{"allow": "yes", "override": "no", "excluded": "", "run": "RUN"},
        **{"unlock": f"0:libnccl-{OLD}.*", "lists": f"{node.folder}/list"},
        "backups": f"{node.folder}/backups/RUN",
        **given,
    }
    return node.run(script("packages_rpm", **variables), shell)


def debs(node: Machine, shell: str, **given: str) -> Ended:
    """Install and hold the debs."""
    variables = {
        **{"names": " ".join(DEBS), "version": VERSION, "url": "", "key": "", "allow": "yes"},
        **{"override": "no", "held": "libnccl2", "run": "RUN", **given},
        "allow_reload": "yes",
    }
    return node.run(script("packages_deb", manager="apt-get", **variables), shell)


def test_a_line_that_goes_is_kept(node: Machine, shell: str, note: Path) -> None:
    """The list is backed up before, what went is reported, and what we hold is noted."""
    note.parent.mkdir()
    note.write_text(f"nvidia-smi 535.1 EARLIER\nlibnccl {OLD} EARLIER\n")
    done = rpms(node, shell)
    assert (done.code, done.err) == (0, "")
    assert node.read("list") == [
        *("# for job 7", "0:bash-5-1.*"),
        *(f"0:{name}-{VERSION}.*" for name in RPMS),
    ]
    kept = Path(f"{node.folder}/backups/RUN{node.folder}/list")
    assert f"0:libnccl-{OLD}.*" in kept.read_text()
    assert f"0:libnccl-{OLD}.*" in done.out and f"{node.folder}/backups/RUN" in done.out
    assert note.read_text().splitlines() == [
        *(f"{name} {VERSION} RUN" for name in RPMS),
        "nvidia-smi 535.1 EARLIER",
    ]
    assert [each.name for each in note.parent.iterdir()] == ["holds"]
    noted = note.stat()
    assert rpms(node, shell, run="LATER").code == 0
    assert (note.stat().st_ino, note.stat().st_mtime_ns) == (noted.st_ino, noted.st_mtime_ns)


@pytest.mark.parametrize("what", ["plugin", "note", "backup"])
def test_what_can_fail_is_tried_first(node: Machine, shell: str, note: Path, what: str) -> None:
    """No package is replaced where it could not be held afterwards."""
    folder = node.folder / {"plugin": "", "note": "noted", "backup": "backups"}[what]
    if what == "plugin":
        node.write("unlocked")
        node.write("dead")
    else:
        folder.write_text("in the way")
    done = rpms(node, shell)
    assert done.code == 1
    assert node.read("there") == [f"{name} {OLD}" for name in RPMS]
    says = {
        "plugin": "yum-plugin-versionlock, which cannot be installed: Cannot find a valid baseurl",
        "note": f"{note} cannot be written",
        "backup": "cannot be backed up",
    }
    assert says[what] in done.err
    assert not [line for line in node.read("called") if "rpm -U" in line or "downloader" in line]


def test_what_the_rpms_would_remove_under_another_name(node: Machine, shell: str) -> None:
    """Refused where it is installed: rpm obeys what a package says that it replaces."""
    node.write("there", *(f"{name} {OLD}" for name in RPMS), "nccl-tools 1.0-1")
    done = rpms(node, shell)
    assert done.code == 1 and "rpm would remove nccl-tools, which" in done.err
    assert done.err.endswith("; no package was changed\n")
    assert not [line for line in node.read("called") if "rpm -U" in line]


def test_only_an_override_passes_an_exclude(node: Machine, shell: str) -> None:
    """Without it the package manager itself heeds what its configuration excludes."""
    assert rpms(node, shell).code == 0
    node.write("there", *(f"{name} {OLD}" for name in RPMS))
    assert rpms(node, shell, override="yes").code == 0
    without, with_it = [line for line in node.read("called") if line.startswith("yumdownloader")]
    assert ("--disableexcludes=all" in without, "--disableexcludes=all" in with_it) == (False, True)


def test_what_keeps_it_out_of_a_repository(node: Machine, shell: str) -> None:
    """Where no repository has the package, the line that excludes it is named."""
    (node.folder / "bin" / "yumdownloader").write_text("#!/bin/sh\nexit 0\n")
    line = "; /etc/yum.repos.d/cuda.repo:5: exclude=libnccl*"
    done = rpms(node, shell, excluded=line)
    assert done.code == 1 and f"there is: no libnccl{line}; no package was changed" in done.err


def test_debs(node: Machine, shell: str, note: Path) -> None:
    """What was on hold when the locks were judged is changed, held again, and noted."""
    done = debs(node, shell)
    assert (done.code, done.err) == (0, "")
    assert note.read_text().splitlines() == [f"{name} {VERSION} RUN" for name in sorted(DEBS)]
    assert "apt-mark hold libnccl2 libnccl-dev" in node.read("called")


def test_debs_that_cannot_be_installed(node: Machine, shell: str) -> None:
    """A failure with apt's reason; what is there instead is not held."""
    node.write("fails", "E: Sub-process /usr/bin/dpkg returned an error code (1)")
    done = debs(node, shell)
    assert done.code == 1 and "apt refuses: E: Sub-process /usr/bin/dpkg returned" in done.err
    assert not [line for line in node.read("called") if line.startswith("apt-mark hold")]


def test_a_hold_that_came_meanwhile(node: Machine, shell: str, note: Path) -> None:
    """An administrator put it there since the plan was made: refused, unless it may be replaced."""
    done = debs(node, shell, held="")
    assert done.code == 1 and "libnccl2 is on hold since the plan was made" in done.err
    assert not note.exists() and not [line for line in node.read("called") if "install" in line]
    assert debs(node, shell, held="", override="yes").code == 0


def test_debs_that_no_repository_has(node: Machine, shell: str) -> None:
    """The versions that are there are named, and no package is touched."""
    done = debs(node, shell, version="2.20.5-1+cuda12.4")
    assert done.code == 1
    assert (
        f"no libnccl2 2.20.5-1+cuda12.4 in the repositories of this node: there is: {VERSION}"
        in (done.err)
    )
    assert not [line for line in node.read("called") if " install " in line]

"""driver_install_*.sh, run for real over stand-ins for apt and yum: exact, alone, or not at all."""

from __future__ import annotations

import pytest

from deploy.scripts import script
from tests.deploy.packaging import Machine
from tests.deploy.packaging import machine as machine
from tests.deploy.running import Ended

DKMS, UTILS, LIBRARY = "nvidia-dkms-535", "nvidia-utils-535", "libnvidia-compute-535"
OLD, NEW = "535.154.05-0ubuntu1", "1:535.183.01-0ubuntu1"
OFFERS = [f"{name} {version}" for name in (DKMS, UTILS, LIBRARY) for version in (NEW, OLD)]
LIBRARIES = ("1 libs found", "\tlibnvidia-ml.so.1 (libc6,x86-64) => /usr/lib/libnvidia-ml.so.1")


def apt(machine: Machine, shell: str, version: str = "535.154.05", hold: str = "yes") -> Ended:
    """Install two of the driver's packages."""
    names = f"{DKMS} {UTILS}"
    asked = script("driver_install_deb", packages=names, version=version, hold=hold)
    return machine.run(asked, shell)


def yum(machine: Machine, shell: str, version: str = "535.154.05", hold: str = "yes") -> Ended:
    """The same of the rpm family."""
    given = {"packages": "kmod-nvidia nvidia-smi", "version": version, "hold": hold}
    return machine.run(script("driver_install_rpm", manager="yum", **given), shell)


def test_exactly_the_version_wanted(machine: Machine, shell: str) -> None:
    """What comes along, too, where apt alone would take the newest of the branch; all held."""
    machine.write("offers", *OFFERS)
    machine.write("needs", f"{LIBRARY} {NEW}", "libdrm2 2.4.114-1")
    done = apt(machine, shell)
    assert (done.code, done.err) == (0, "")
    there = dict(line.split()[:2] for line in machine.read("there"))
    assert there == {DKMS: OLD, UTILS: OLD, LIBRARY: OLD, "libdrm2": "2.4.114-1"}
    (held,) = [line for line in machine.read("called") if line.startswith("apt-mark")]
    assert {*held.split()[2:]} == {DKMS, UTILS, LIBRARY}
    (install,) = machine.installs()
    assert "--no-remove" in install and "--no-install-recommends" in install


def test_the_newest_of_a_branch(machine: Machine, shell: str) -> None:
    """All of one version; and as any will do, none is held."""
    machine.write("offers", *OFFERS, f"{UTILS} 535.200.01-0ubuntu1", f"{DKMS} 545.1.1-1")
    done = apt(machine, shell, version="535", hold="no")
    assert (done.code, done.err) == (0, "")
    assert machine.read("there") == [f"{DKMS} {NEW} installed", f"{UTILS} {NEW} installed"]
    assert not [line for line in machine.read("called") if line.startswith("apt-mark")]


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        ("Remv nvidia-driver-470 [470.1]", "apt would remove nvidia-driver-470"),
        ("Inst libc6 [2.31] (2.35 lab [amd64])", "apt would replace libc6 2.31"),
        ("Inst linux-image-6.8.0-1-generic (6.8 lab)", "install the kernel linux-image-6.8.0-1"),
    ],
)
def test_nothing_goes_for_its_sake(machine: Machine, shell: str, plan: str, says: str) -> None:
    """Simulated first, refused with what would go, and nothing is changed."""
    machine.write("offers", *OFFERS)
    machine.write("plan", plan)
    done = apt(machine, shell)
    assert done.code == 1
    assert says in done.err and "nothing was changed" in done.err
    assert machine.installs() == [] and machine.read("there") == []


def test_what_cannot_be_had(machine: Machine, shell: str) -> None:
    """Told with what there is."""
    machine.write("offers", f"{DKMS} {NEW}", f"{DKMS} 535.154.051-1")
    done = apt(machine, shell)
    assert done.code == 1
    assert f"no {DKMS} 535.154.05 in the repositories of this node: there is: " in done.err
    assert NEW in done.err and machine.installs() == []


def test_apt_refuses(machine: Machine, shell: str) -> None:
    """In its own words."""
    machine.write("offers", *OFFERS)
    machine.write("refuses", "  nvidia-dkms-535 : Depends: dkms", "E: Unable to correct problems")
    done = apt(machine, shell)
    assert done.code == 1 and "apt refuses: " in done.err and "E: Unable to correct" in done.err
    assert "Depends: dkms" in done.err and machine.installs() == []


@pytest.mark.parametrize("install", [apt, yum])
def test_another_driver_is_left_alone(machine: Machine, shell: str, install: object) -> None:
    """Its library is here, and none of the packages."""
    assert callable(install)
    machine.write("offers", *OFFERS)
    machine.write("libraries", *LIBRARIES)
    done = install(machine, shell)
    assert done.code == 1
    assert "another driver is here (/usr/lib/libnvidia-ml.so.1)" in done.err
    assert machine.installs() == [] and machine.read("there") == []


def test_what_was_cut_off_is_finished(machine: Machine, shell: str) -> None:
    """One package is whole, the other half: the second alone is asked for."""
    machine.write("offers", *OFFERS)
    machine.write("libraries", *LIBRARIES)
    machine.write("there", f"{DKMS} {OLD} installed", f"{UTILS} {OLD} half-installed")
    done = apt(machine, shell)
    assert (done.code, done.err) == (0, "")
    (install,) = machine.installs()
    assert f"{UTILS}={OLD}" in install and DKMS not in install


def test_a_module_that_cannot_be_built_is_told_later(machine: Machine, shell: str) -> None:
    """dkms.sh shows the compiler's words: here it is enough that the packages are unpacked."""
    machine.write("offers", *OFFERS)
    (machine.folder / "becomes").write_text("half-configured")
    assert apt(machine, shell).code == 0
    (machine.folder / "becomes").write_text("not-installed")
    machine.write("there")
    done = apt(machine, shell)
    assert done.code == 1 and "E: Sub-process dpkg" in done.err and "run again" in done.err


HEAD = ("Dependencies resolved.", " Package   Arch   Version   Repository   Size")
NEEDED = (
    *("Installing:", " kmod-nvidia  x86_64  3:535.154.05-1.el7  cuda  10 M"),
    *("Installing dependencies:", " dkms  noarch  3.0.10-1.el7  epel  80 k"),
)
TAIL = ("", "Transaction Summary", "Install  2 Packages", "Upgrade  1 Package", "")
ABORTED = {"3.4.3": "Exiting on user command", "4.14.0": "Operation aborted."}


@pytest.mark.parametrize("version", ABORTED)
def test_yum_and_dnf(machine: Machine, shell: str, version: str) -> None:
    """Asked for by name and version, whatever the release; looked at first, and held."""
    machine.write("version", version)
    machine.write("plan", *HEAD, *NEEDED, *TAIL, ABORTED[version])
    machine.write("after", "kmod-nvidia 535.154.05-1.el7", "nvidia-smi 535.154.05-1.el7")
    done = yum(machine, shell)
    assert (done.code, done.err) == (0, "")
    (install,) = machine.installs()
    assert install.endswith("install kmod-nvidia-535.154.05-* nvidia-smi-535.154.05-*")
    assert ("install_weak_deps=False" in install) == (version != "3.4.3")
    (lock,) = [line for line in machine.read("called") if "versionlock add" in line]
    assert lock.endswith("kmod-nvidia-535.154.05-1.el7 nvidia-smi-535.154.05-1.el7")


def test_a_branch_by_yum(machine: Machine, shell: str) -> None:
    """Its newest, and held nowhere; where the plugin is lacking, that it is not held is told."""
    machine.write("plan", *NEEDED, ABORTED["3.4.3"])
    machine.write("after", "kmod-nvidia 535.154.05-1", "nvidia-smi 535.154.05-1")
    assert yum(machine, shell, version="535", hold="no").code == 0
    assert machine.installs()[0].endswith("kmod-nvidia-535.* nvidia-smi-535.*")
    machine.write("there")
    machine.write("unlocked")
    done = yum(machine, shell)
    assert done.code == 0 and "versionlock cannot hold" in done.out


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (("Removing:", " nvidia-470  x86_64  470.1-1  @cuda  1 M"), "yum would remove nvidia-470"),
        (
            ("Updating for dependencies:", " glibc  x86_64  2.17-326  updates  3 M"),
            "yum would replace glibc",
        ),
        (("     replacing  kmod-nv.x86_64 470.1-1",), "yum would replace kmod-nv.x86_64"),
        (
            ("Installing dependencies:", " kernel  x86_64  3.10.0-1160.el7  base  50 M"),
            "yum would install the kernel 3.10.0-1160.el7",
        ),
        (
            ("Installing dependencies:", " nvidia-libs  x86_64  3:535.183.01-1  cuda  50 M"),
            "yum would install nvidia-libs 3:535.183.01-1 with them",
        ),
    ],
)
def test_what_yum_would_do(machine: Machine, shell: str, lines: tuple[str, ...], says: str) -> None:
    """Refused, with nothing changed."""
    machine.write("plan", *HEAD, *NEEDED, *lines, *TAIL, ABORTED["3.4.3"])
    done = yum(machine, shell)
    assert done.code == 1
    assert says in done.err and "nothing was changed" in done.err
    assert machine.installs() == []


def test_what_yum_cannot_have(machine: Machine, shell: str) -> None:
    """One of the two: yum would go on without it."""
    machine.write("offers", "kmod-nvidia 3:535.183.01-1.el7")
    told = "No package nvidia-smi-535.154.05-* available."
    machine.write("plan", told, *NEEDED, ABORTED["3.4.3"])
    done = yum(machine, shell)
    assert done.code == 1 and told in done.err
    assert "there is: kmod-nvidia 3:535.183.01-1.el7" in done.err and machine.installs() == []

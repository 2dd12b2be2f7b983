"""driver_install.sh, run for real over stand-ins for apt and yum: exact, alone, or not at all."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_node.deploy.engine.scripts import script
from tests.deploy.packaging import Machine
from tests.deploy.packaging import machine as machine
from tests.node_scripts import Ended

DKMS, UTILS, LIBRARY = "nvidia-dkms-535", "nvidia-utils-535", "libnvidia-compute-535"
OLD, NEW = "535.154.05-0ubuntu1", "1:535.183.01-0ubuntu1"
OFFERS = [f"{name} {version}" for name in (DKMS, UTILS, LIBRARY) for version in (NEW, OLD)]
LIBRARIES = ("1 libs found", "\tlibnvidia-ml.so.1 (libc6,x86-64) => /usr/lib/libnvidia-ml.so.1")


def apt(
    machine: Machine,
    shell: str,
    version: str = "535.154.05",
    hold: str = "yes",
    allow: str = "yes",
) -> Ended:
    """Install two of the driver's packages."""
    given = {
        "packages": f"{DKMS} {UTILS}",
        "version": version,
        "hold": hold,
        "allow": allow,
        "allow_reload": "yes",
        "run": "RUN",
    }
    return machine.run(script("driver_install", manager="apt-get", **given), shell)


def yum(
    machine: Machine,
    shell: str,
    version: str = "535.154.05",
    hold: str = "yes",
    allow: str = "yes",
) -> Ended:
    """The same of the rpm family."""
    names = "kmod-nvidia nvidia-smi"
    given = {"packages": names, "version": version, "hold": hold, "allow": allow, "run": "RUN"}
    given["allow_reload"] = "yes"
    return machine.run(script("driver_install", manager="yum", **given), shell)


def test_exactly_the_version_wanted(machine: Machine, shell: str, note: Path) -> None:
    """What comes along, too, where apt alone would take the newest of the branch; all held."""
    machine.write("offers", *OFFERS)
    machine.write("needs", f"{LIBRARY} {NEW}", "libdrm2 2.4.114-1")
    done = apt(machine, shell)
    assert (done.code, done.err) == (0, "")
    there = dict(line.split()[:2] for line in machine.read("there"))
    assert there == {DKMS: OLD, UTILS: OLD, LIBRARY: OLD, "libdrm2": "2.4.114-1"}
    (held,) = [line for line in machine.read("called") if line.startswith("apt-mark")]
    assert {*held.split()[2:]} == {DKMS, UTILS, LIBRARY}
    assert note.read_text().splitlines() == [
        f"{name} {OLD} RUN" for name in sorted([DKMS, UTILS, LIBRARY])
    ]
    (install,) = machine.installs()
    assert "--no-remove" in install and "--no-install-recommends" in install


def test_what_apt_refuses_is_named(machine: Machine, shell: str) -> None:
    """Debian's packages need exactly their version of others, of which apt takes the newest."""
    machine.write("offers", *OFFERS, f"nvidia-alternative {NEW}", f"nvidia-alternative {OLD}")
    machine.write("exactly", f"{UTILS} {LIBRARY} {OLD}", f"{LIBRARY} nvidia-alternative {OLD}")
    done = apt(machine, shell)
    assert (done.code, done.err) == (0, "")
    there = dict(line.split()[:2] for line in machine.read("there"))
    assert there == dict.fromkeys((DKMS, UTILS, LIBRARY, "nvidia-alternative"), OLD)


def test_what_apt_takes_at_a_newer_version(machine: Machine, shell: str) -> None:
    """Debian's nvidia-kernel-support is named by no package with a version, and needs its own."""
    support = "nvidia-kernel-support"
    machine.write("offers", *OFFERS, f"{support} {NEW}", f"{support} {OLD}")
    needs = [f"{name} {LIBRARY} {OLD}" for name in (DKMS, UTILS)]
    machine.write("exactly", *needs, f"{support} {LIBRARY} {NEW} {OLD}")
    done = apt(machine, shell)
    assert (done.code, done.err) == (0, "")
    there = dict(line.split()[:2] for line in machine.read("there"))
    assert there == dict.fromkeys((DKMS, UTILS, LIBRARY, support), OLD)


def test_a_program_of_another_version(machine: Machine, shell: str) -> None:
    """Debian's nvidia-modprobe is newer than the driver; of a library that is refused."""
    machine.write("offers", *OFFERS, f"nvidia-modprobe {NEW}", f"nvidia-alternative {NEW}")
    machine.write("needs", f"nvidia-modprobe {NEW}")
    done = apt(machine, shell)
    assert (done.code, done.err) == (0, "")
    there = dict(line.split()[:2] for line in machine.read("there"))
    assert there == {DKMS: OLD, UTILS: OLD, "nvidia-modprobe": NEW}
    machine.write("there")
    machine.write("needs", f"nvidia-alternative {NEW}")
    done = apt(machine, shell)
    assert done.code == 1 and "no nvidia-alternative 535.154.05" in done.err


def test_what_apt_refuses_and_nobody_has(machine: Machine, shell: str) -> None:
    """It is refused in apt's words."""
    machine.write("offers", *OFFERS)
    machine.write("exactly", f"{UTILS} nvidia-alternative {OLD}")
    done = apt(machine, shell)
    assert done.code == 1 and machine.installs() == []
    assert "no nvidia-alternative 535.154.05 in the repositories" in done.err


def test_the_newest_of_a_branch(machine: Machine, shell: str) -> None:
    """All of one version; and as any will do, none is held."""
    machine.write("offers", *OFFERS, f"{UTILS} 535.200.01-0ubuntu1", f"{DKMS} 545.1.1-1")
    done = apt(machine, shell, version="535", hold="no")
    assert (done.code, done.err) == (0, "")
    assert machine.read("there") == [f"{DKMS} {NEW} installed", f"{UTILS} {NEW} installed"]
    assert not [line for line in machine.read("called") if line.startswith("apt-mark")]


def test_what_lacks_of_a_branch_is_of_what_is_there(machine: Machine, shell: str) -> None:
    """No newer one of the branch beside it; refused where its own is not available."""
    machine.write("offers", *OFFERS)
    machine.write("there", f"{DKMS} {OLD} installed")
    done = apt(machine, shell, version="535", hold="no")
    assert (done.code, done.err) == (0, "")
    assert machine.read("there") == [f"{DKMS} {OLD} installed", f"{UTILS} {OLD} installed"]
    machine.write("there", f"{UTILS} 535.104.05-1 installed")
    machine.write("called")
    done = apt(machine, shell, version="535", hold="no")
    assert done.code == 1 and machine.installs() == []
    reported = (
        f"no {DKMS} 535.104.05 (as {UTILS} is here) in the repositories of this node: there is: "
    )
    assert reported in done.err and "no package was changed" in done.err


def test_two_versions_of_a_branch_are_reported(machine: Machine, shell: str) -> None:
    """Which of them is meant cannot be determined."""
    machine.write("offers", *OFFERS)
    machine.write("there", f"{DKMS} {OLD} installed", f"{UTILS} {NEW} installed")
    done = apt(machine, shell, version="535", hold="no")
    assert done.code == 1 and machine.installs() == []
    assert f"{DKMS} is here at 535.154.05, and {UTILS} at 535.183.01" in done.err


def test_apt_that_gives_no_reason(machine: Machine, shell: str) -> None:
    """It ends well, and a package is at another version: that is shown."""
    machine.write("offers", *OFFERS)
    (machine.folder / "bin" / "dpkg-query").write_text("#!/bin/sh\necho installed 535.1.1-1\n")
    done = apt(machine, shell)
    assert done.code == 1 and "it gives no reason, and has left 535.1.1-1" in done.err


@pytest.mark.parametrize("install", [apt, yum])
def test_a_running_job(machine: Machine, shell: str, install: Callable[..., Ended]) -> None:
    """It has a libnccl mapped: nothing is installed beside it."""
    machine.write("offers", *OFFERS)
    machine.write("there", f"{DKMS} {OLD} installed", "kmod-nvidia 535.154.05-1.el7")
    library = machine.folder / "libnccl.so.2"
    library.write_bytes(bytes(4096))
    code = f"import mmap, time; f = open({str(library)!r}, 'r+b')"
    code += "; m = mmap.mmap(f.fileno(), 0)"
    words = [sys.executable, "-c", f"{code}; print(1, flush=True); time.sleep(60)"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True) as job:
        assert job.stdout is not None and job.stdout.readline() == "1\n"
        done = install(replace(machine, beside_others=True), shell, allow="no")
        job.kill()
    assert done.code == 1 and f"pid {job.pid} (" in done.err and "nothing was changed" in done.err
    assert machine.installs() == []


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
    assert says in done.err and "no package was changed" in done.err
    assert machine.installs() == [] and machine.read("there") == []


def test_what_cannot_be_had(machine: Machine, shell: str) -> None:
    """The error lists the available versions."""
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
    assert (
        done.code == 1
        and "apt refuses 535.154.05: " in done.err
        and "E: Unable to correct" in done.err
    )
    assert "Depends: dkms" in done.err and machine.installs() == []


@pytest.mark.parametrize("install", [apt, yum])
def test_another_driver_is_left_alone(machine: Machine, shell: str, install: object) -> None:
    """Its library is here, and none of the packages."""
    assert callable(install)
    machine.write("offers", *OFFERS)
    machine.write("libraries", *LIBRARIES)
    done = install(machine, shell)
    assert done.code == 1
    assert "another driver is installed (/usr/lib/libnvidia-ml.so.1)" in done.err
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


def test_a_module_that_cannot_be_built_is_reported_later(machine: Machine, shell: str) -> None:
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
def test_yum_and_dnf(machine: Machine, shell: str, version: str, note: Path) -> None:
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
    assert note.read_text().split()[:3] == ["kmod-nvidia", "535.154.05-1.el7", "RUN"]


def test_a_branch_by_yum(machine: Machine, shell: str) -> None:
    """Its newest version, which is not held; without the plugin the output reports that."""
    machine.write("plan", *NEEDED, ABORTED["3.4.3"])
    machine.write("after", "kmod-nvidia 535.154.05-1", "nvidia-smi 535.154.05-1")
    assert yum(machine, shell, version="535", hold="no").code == 0
    assert machine.installs()[0].endswith("kmod-nvidia-535.* nvidia-smi-535.*")
    machine.write("there")
    machine.write("unlocked")
    done = yum(machine, shell)
    assert done.code == 0 and "they cannot be held" in done.out


def test_what_lacks_of_a_branch_by_yum(machine: Machine, shell: str) -> None:
    """At the version that is there; refused where that is not available, or where two are there."""
    machine.write("there", "kmod-nvidia 535.104.05-1.el7")
    smi = " nvidia-smi  x86_64  3:535.104.05-1.el7  cuda  1 M"
    machine.write("plan", "Installing:", smi, ABORTED["3.4.3"])
    machine.write("after", "nvidia-smi 535.104.05-1.el7")
    assert yum(machine, shell, version="535", hold="no").code == 0
    assert machine.installs()[0].endswith("install nvidia-smi-535.104.05-*")
    machine.write("there", "kmod-nvidia 535.104.05-1.el7")
    machine.write("called")
    machine.write("plan", "No package nvidia-smi-535.104.05-* available.")
    done = yum(machine, shell, version="535", hold="no")
    assert done.code == 1 and "yum refuses 535.104.05 (as kmod-nvidia is here): No p" in done.err
    assert machine.installs() == []
    machine.write("there", "kmod-nvidia 535.104.05-1.el7", "nvidia-smi 535.154.05-1.el7")
    done = yum(machine, shell, version="535", hold="no")
    assert done.code == 1 and "nvidia-smi at 535.154.05: make them one version" in done.err


def test_the_newest_of_each_by_yum(machine: Machine, shell: str) -> None:
    """Of a branch two versions at once would come: refused."""
    smi = " nvidia-smi  x86_64  3:535.183.01-1.el7  cuda  1 M"
    machine.write("plan", *NEEDED, smi, *TAIL, ABORTED["3.4.3"])
    done = yum(machine, shell, version="535", hold="no")
    assert done.code == 1 and machine.installs() == []
    assert "yum would install nvidia-smi 3:535.183.01-1.el7 beside 535.154.05" in done.err


def test_kernels_headers_boot_nothing(machine: Machine, shell: str) -> None:
    """What dkms needs of any kernel comes along."""
    names = ("kernel-devel", "kernel-uek-devel", "kernel-rt-devel", "kernel-64k-devel-matched")
    rows = [f" {name}  x86_64  5.14.0-427.el9  baseos  9 M" for name in names]
    machine.write("plan", *HEAD, *NEEDED, *rows, *TAIL, ABORTED["4.14.0"])
    machine.write("after", "kmod-nvidia 535.154.05-1.el7", "nvidia-smi 535.154.05-1.el7")
    done = yum(machine, shell)
    assert (done.code, done.err) == (0, "")


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
        *(
            (
                ("Installing dependencies:", f" {name}  x86_64  5.14.0-427.el9  base  50 M"),
                "yum would install the kernel 5.14.0-427.el9",
            )
            for name in ("kernel-core", "kernel-uek-core", "kernel-64k-core", "kernel-rt-modules")
        ),
        (
            ("Installing dependencies:", " nvidia-libs  x86_64  3:535.183.01-1  cuda  50 M"),
            "yum would install nvidia-libs 3:535.183.01-1 beside",
        ),
        # yum goes on in the next line after what is longer than its column.
        (
            (
                *("Installing for dependencies:", " nvidia-driver-cuda-libs"),
                "               x86_64  3:535.183.01-1.el7",
                "                              cuda-rhel7-x86_64  50 M",
            ),
            "yum would install nvidia-driver-cuda-libs 3:535.183.01-1.el7 beside",
        ),
        (
            ("Removing:", " xorg-x11-drv-nvidia-470xx", "           x86_64  470.1-1  @cuda  1 M"),
            "yum would remove xorg-x11-drv-nvidia-470xx",
        ),
        (
            ("Installing:", " kernel-uek-modules-extra", "           x86_64  5.4.17-1  ol7  1 M"),
            "yum would install the kernel 5.4.17-1",
        ),
    ],
)
def test_what_yum_would_do(machine: Machine, shell: str, lines: tuple[str, ...], says: str) -> None:
    """Refused, with nothing changed."""
    machine.write("plan", *HEAD, *NEEDED, *lines, *TAIL, ABORTED["3.4.3"])
    done = yum(machine, shell)
    assert done.code == 1
    assert says in done.err and "no package was changed" in done.err
    assert machine.installs() == []


def test_what_an_administrator_keeps_out(machine: Machine, shell: str) -> None:
    """yum heeds it, and does not say so: file, line and text are named."""
    machine.write("plan", "No package kmod-nvidia-535.154.05-* available.")
    # awk is found by a link there.
    etc = """mount -t tmpfs none /mnt; cp -a /etc/alternatives /mnt/; mount --bind /mnt /etc
mkdir -p /etc/yum/pluginconf.d
printf '[main]\\nexclude=kernel* kmod-*\\n' >/etc/yum.conf
printf '# for job 7\\n0:nvidia-smi-470.1-1.*\\n0:nvidia-smi-extra-1-1.*\\n' \\
  >/etc/yum/pluginconf.d/versionlock.list
"""
    names = {"manager": "yum", "packages": "kmod-nvidia nvidia-smi", "version": "535.154.05"}
    rest = {"hold": "no", "allow": "yes", "allow_reload": "yes", "run": "RUN"}
    done = machine.run(script("driver_install", **names, **rest), shell, etc)
    assert done.code == 1 and machine.installs() == []
    assert "; /etc/yum.conf:2:exclude=kernel* kmod-* keeps out kmod-nvidia" in done.err
    assert "versionlock.list:2:0:nvidia-smi-470.1-1.* locks nvidia-smi" in done.err
    assert "nvidia-smi-extra" not in done.err


def test_what_yum_cannot_have(machine: Machine, shell: str) -> None:
    """One of the two: yum would go on without it."""
    machine.write("offers", "kmod-nvidia 3:535.183.01-1.el7")
    reported = "No package nvidia-smi-535.154.05-* available."
    machine.write("plan", reported, *NEEDED, ABORTED["3.4.3"])
    done = yum(machine, shell)
    assert done.code == 1 and reported in done.err
    assert "there is: kmod-nvidia 3:535.183.01-1.el7" in done.err and machine.installs() == []

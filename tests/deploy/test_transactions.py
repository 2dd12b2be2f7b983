"""Steps that install packages: what would change other packages is refused, also before a run."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyinfra.api import StringCommand

from gpu_node.deploy.engine import scripts, transactions
from gpu_node.deploy.engine.scripts import script
from tests.deploy.packaging import Machine
from tests.deploy.packaging import machine as machine
from tests.node_scripts import Ended

CASES: dict[str, dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_suffix("").with_name("transactions.yml").read_text()
)
REFUSED = [name for name, case in CASES.items() if "refused" in case]
# What apt, yum and rpm are called with where they change nothing but their lists of packages.
_LOOKS = re.compile(r" -s |--assumeno|^yum --version|^apt-get .*update$| list|^apt-mark showhold")


def run(
    machine: Machine, shell: str, case: dict[str, Any], foresee: bool = False, before: str = ""
) -> Ended:
    """Run the step of a case where neither dkms nor the headers are there."""
    for name in ("offers", "plan", "lifted"):
        machine.write(name, *case.get(name, ()))
    machine.write("version", "3.4.3")
    machine.write("unlocked")
    given = {"allow": "yes", "allow_reload": "yes", "run": "RUN", **case["given"]}
    if "excludes" in case:
        # awk is found by a link there.
        before += (
            "mount -t tmpfs none /mnt; cp -a /etc/alternatives /mnt/; mount --bind /mnt /etc\n"
        )
        before += f"printf '[main]\\nexclude={case['excludes']}\\n' >/etc/yum.conf\n"
    if dkms := shutil.which("dkms"):
        before += f"mount --bind /dev/null {dkms}\n"
    name = case["script"]
    made = StringCommand(scripts.look(name, **given)) if foresee else script(name, **given)
    return machine.run(made, shell, before)


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused(machine: Machine, shell: str, note: Path, name: str) -> None:
    """With the names, and the administrator's one command."""
    done = run(machine, shell, CASES[name])
    assert done.code == 1 and CASES[name]["refused"] in done.err
    assert done.err.endswith("; no package was changed\n") and machine.installs() == []


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_foreseen(machine: Machine, shell: str, name: str) -> None:
    """Printed before a run's question, and nothing is changed."""
    done = run(machine, shell, CASES[name], foresee=True)
    assert (done.code, done.err) == (0, "") and CASES[name]["refused"] in done.out
    assert [each for each in machine.read("called") if not _LOOKS.search(each)] == []


def test_a_node_without_lists(machine: Machine, shell: str) -> None:
    """They are read into a folder for this alone, from servers that get one chance to answer."""
    machine.write("cacheless")
    case = CASES["yum_headers_would_replace_glibc"]
    assert case["refused"] in run(machine, shell, case, foresee=True).out
    first, second = [each for each in machine.read("called") if "--assumeno" in each]
    assert " -C " in first and " -C " not in second
    assert "--setopt=cachedir=/var/tmp/gpu-node-packages." in second and "retries=1" in second


def test_a_repository_whose_list_is_signed(machine: Machine, shell: str, note: Path) -> None:
    """yum has its key in persistdir: the simulation, which has one of its own, has it, too."""
    key = "repos/x86_64/7/libnvidia-container/gpgdir"
    yum = machine.folder / "bin" / "yum"
    check = f"""
for each; do case $each in --setopt=persistdir=*)
  [ -d "${{each##*=}}/{key}" ] || {{ echo 'repomd.xml is not verified'; exit 1; }} ;;
esac; done
"""
    yum.write_text(yum.read_text().replace("\necho", f"{check}echo", 1))
    before = f"mount -t tmpfs none /var/lib\nmkdir -p /var/lib/yum/{key}\n"
    done = run(machine, shell, CASES["yum_headers"], before=before)
    assert "kernel-devel-9.9.9-test" in "".join(machine.installs()), done.err


@pytest.mark.parametrize("name", [name for name in CASES if name not in REFUSED])
def test_it_is_installed(machine: Machine, shell: str, note: Path, name: str) -> None:
    """What comes along is listed. Nothing is foreseen, and looking ahead changes nothing."""
    case = CASES[name]
    ahead = run(machine, shell, case, foresee=True)
    assert (ahead.code, ahead.out.strip(), ahead.err) == (0, "", "")
    assert [each for each in machine.read("called") if not _LOOKS.search(each)] == []
    done = run(machine, shell, case)
    assert case.get("lists", "") in done.out, done.err
    assert [each.endswith(f" install {case['names']}") for each in machine.installs()] == [True]


def test_each_step_that_installs_packages_looks_ahead() -> None:
    """By the one algorithm; no script has another way to yum, dnf or apt."""
    of_it = {name for name in scripts.FILES if "transaction" in scripts.needed(name)}
    assert of_it == {"driver_install", "driver_packages", "program", "packages_deb", "packages_rpm"}
    installs = re.compile(
        r"^ *(?:patient )?(?:apt-get|yum|dnf|\"?\$manager\"?) .*\b(?:re)?install\b", re.MULTILINE
    )
    found = {name for name in scripts.FILES if installs.search(scripts.text(name))}
    assert found == set()


class Node:
    """A host before the question of a run, whose answer is given."""

    def __init__(self, refused: str, is_executing: bool) -> None:
        self.refused, self.asked = refused, 0
        self.state = type("State", (), {"is_executing": is_executing})
        self.print_prefix = "[a100-01] "

    def get_fact(self, fact: type, script: str) -> dict[str, str]:
        """Return what the look ahead prints."""
        self.asked += 1
        assert fact is transactions.Foreseen and "look=yes" in script
        return {"refused": self.refused}


@pytest.mark.parametrize("is_executing", [False, True])
def test_it_is_reported_before_the_question(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_executing: bool
) -> None:
    """Once, when the run is planned; later the script itself decides."""
    node = Node("apt would replace libc6\x1b[31m", is_executing)
    monkeypatch.setattr(transactions, "host", node)
    names = {"program": "pdsh", "packages": "pdsh", "allow_reload": "no"}
    made = transactions.transaction("program", manager="apt-get", **names)
    assert made == script("program", manager="apt-get", **names)
    assert node.asked == (not is_executing)
    assert ("no package will be changed" in caplog.text) == (not is_executing)
    assert "\x1b" not in caplog.text


def test_what_cannot_be_foreseen() -> None:
    """A broken answer is no refusal: the script itself decides."""
    fact = transactions.Foreseen()
    assert "gn_section packages.foreseen" in fact.command("echo x")
    assert fact.process(["nothing of it"]) == {"refused": ""}

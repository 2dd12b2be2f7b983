"""A report as an ordinary user: one line for what only root reads, and what that user can do."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest

from gpu_node.drift.engine.finding import Way
from gpu_node.drift.engine.registry import RULES
from gpu_node.drift.report import explained, junit
from gpu_node.drift.report.formats import Page, plain, printed
from gpu_node.drift.report.model import HostReport
from gpu_node.drift.report.problems import NEEDS_ROOT, problems, without_root
from gpu_node.drift.report.seen import Seen
from gpu_node.drift.report.view import View
from tests.case_files import merged
from tests.drift import states
from tests.drift.reports import FRESH, WARNING, concise, drawn, report
from tests.drift.rule_cases import ALL, findings_of

ALICE = {"limits": {"user": {"name": "alice", "uid": 1000, "gids": [1000], "groups": ["alice"]}}}
CLOSED: dict[str, Any] = {
    "unreadable": [
        {"area": "driver", "section": "driver.next", "reason": "only root can read /boot/grub2"},
        {
            "area": "limits",
            "section": "limits.files",
            "reason": "exit 1: /etc/security/limits.d is closed",
        },
    ]
}
TTY = {"ssh": {"sudo_refusal": "sudo: sorry, you must have a tty to run sudo"}}
OF_ROOT = re.compile(
    r"\b(apt-get|yum|dnf|modprobe|systemctl|mount (?=[-/])|sysctl|useradd|dkms install|gpu-reset"
    r"|or reboot|ldconfig)|remove (the line )?/etc/"
)
WHEEL = next(each for each in ALL if each.subject == "nccl.wheel-damaged")
HANGS = {"unreadable": [{"area": "shm", "section": "shm.size", "reason": "no answer within 5 s"}]}


def _seen(*changes: dict[str, Any], sudo: bool = False) -> Seen:
    change: Any = {}
    for each in changes:
        change = merged(change, each)
    return Seen(states.wanted(), states.state(change), sudo=sudo)


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_what_only_root_can_read_is_one_line(width: int) -> None:
    """For all nodes and areas; its number is that of its findings."""
    nodes = {name: _seen(ALICE, CLOSED) for name in ("a", "b", "c")}
    (one,) = problems(report(nodes).hosts)
    assert (one.id, one.severity, len(one.all)) == (NEEDS_ROOT, "error", 6)
    text = concise(nodes, width)
    assert max(map(len, text.splitlines())) <= width
    words = _on_one_line(concise(nodes, 300))
    assert "needs-root 2 facts are readable by root only: driver.next, limits.files" in words
    assert "as root: write `ssh: {sudo: true}` into the inventory" in words
    assert "`alice ALL=(ALL) NOPASSWD: ALL`" in words
    assert re.search(r"(?m)^error +all +needs-root .* admin +6$", concise(nodes, 120))


def test_the_json_has_each_fact() -> None:
    """The exit code is 1; what no root can read, either, is another problem."""
    made = report({"a": _seen(ALICE, CLOSED)})
    found = made.model_dump(mode="json")["hosts"]["a"]
    assert {each["rule"] for each in found["findings"]} == {
        *("driver.unreadable", "limits.unreadable")
    }
    assert "without_root" not in found
    assert made.exit_code() == 1
    (one,) = problems(report({"a": _seen(ALICE, HANGS)}).hosts)
    assert one.id == "shm.unreadable"
    assert "driver.unreadable" in drawn({"a": _seen(ALICE, CLOSED)}, 100)


def test_a_refused_sudo_explains_them() -> None:
    """Its line counts them, with the line for sudoers."""
    nodes = {"a": _seen(ALICE, CLOSED, TTY, sudo=True)}
    (one,) = problems(report(nodes).hosts)
    assert (one.id, len(one.all)) == ("ssh.sudo-refused", 3)
    text = _on_one_line(concise(nodes, 200))
    assert "add `Defaults:alice" in text
    assert "ssh.sudo-refused sudo: sorry, you must have a tty" in text
    assert "admin: root does; gpu-node has no root there" in text


def test_a_sudo_that_asks_has_a_next_step() -> None:
    """The same command with a password; no other refusal ends by it."""
    asks = {"ssh": {"sudo_refusal": "sudo: a password is required"}}
    for refusal, is_next in ((asks, True), (TTY, False)):
        text = _on_one_line(concise({"a": _seen(ALICE, refusal, sudo=True)}, 200))
        assert ("next: gpu-node drift" in text and "--ask-sudo-password" in text) is is_next
    made = {"a": _seen(ALICE, asks, sudo=True), "b": states.seen(FRESH)}
    assert re.search(
        "repair: gpu-node deploy .*--ask-sudo-password", _on_one_line(concise(made, 200))
    )


def test_a_refused_sudo_alone_is_not_judged() -> None:
    """The facts are then those of another user than the inventory names: the exit code is 1."""
    made = report({"a": _seen(ALICE, TTY, sudo=True)})
    assert [each.rule for each in made.hosts["a"].findings] == ["ssh.sudo-refused"]
    assert (made.hosts["a"].status, made.exit_code()) == ("unreadable", 1)
    text = "".join(junit.parts(View(made), Page(plain())))
    assert re.search(r'name="ssh.sudo-refused">\s*<error ', text)


def test_each_problem_has_what_that_user_can_do() -> None:
    """And the exact lines to ask the administrator for."""
    text = concise({"a": _seen(ALICE, FRESH)}, 300)
    assert "without root: Set NCCL_BUFFSIZE=1048576" in text
    assert "docker run --shm-size=SIZE" in text
    line = "tmpfs /dev/shm tmpfs defaults,nosuid,nodev,size=8G 0 0"
    assert f"add to /etc/fstab, on a line of its own: {line}" in text
    assert "without root: Only an administrator can raise the hard limit. Until then open" in text
    assert "/etc/security/limits.d/99-gpu-node.conf: `alice - nofile 131072`" in text
    assert re.search(r"(?m)^error +a +shm\.too-small .* admin +2$", text)
    assert "repair: gpu-node deploy" not in text


def test_the_lines_for_limits() -> None:
    """Only the soft limit, where the hard one is enough; in the units of limits.conf(5)."""
    session = {
        "memlock": {"soft": 65536, "hard": "unlimited"},
        "stack": {"soft": "unlimited", "hard": "unlimited"},
    }
    node = _seen(ALICE, {"limits": {"session": session, "files": []}})
    wanted = states.wanted({"limits_memlock": "8M", "limits_stack": "8M"})
    text = concise({"a": Seen(wanted, node.state)}, 300)
    assert "`alice soft memlock 8192`" in text
    assert "`alice soft stack 8192`" in text


def test_facts_of_some_nodes_name_them() -> None:
    """Ranges, as in the other lines; none where all nodes have it."""
    both = {"unreadable": CLOSED["unreadable"][1:]}
    nodes = {"a100-01": _seen(ALICE, CLOSED)} | {
        name: _seen(ALICE, both) for name in ("v100-01", "v100-02")
    }
    words = _on_one_line(concise(nodes, 300))
    assert "readable by root only: driver.next (a100-01), limits.files " in words
    nodes = {"a100-01": _seen(ALICE, both), "v100-01": _seen(ALICE, CLOSED), "v100-02": _seen()}
    words = _on_one_line(concise(nodes, 300))
    assert "a100-01, v100-01 needs-root 2 facts are readable by root only: " in words
    assert "limits.files, driver.next (v100-01) admin 3" in words


def test_what_helps_on_some_nodes_names_them() -> None:
    """The texts for all nodes come first; two users need two lines of sudoers."""
    bob = {"limits": {"user": {**ALICE["limits"]["user"], "name": "bob"}}}
    nodes = {f"a100-0{number}": _seen(ALICE, CLOSED) for number in (1, 2)}
    nodes["v100-01"] = _seen(bob, CLOSED)
    words = _on_one_line(concise(nodes, 1000))
    first, second = words.index("a100-[01-02]: write `ssh"), words.index("v100-01: write `ssh")
    assert words.index("as root: ") < first < second
    assert "`alice ALL=(ALL)" in words[first:second] and "`bob ALL=(ALL)" in words[second:]
    some = {"a100-01": _seen(ALICE, FRESH), "v100-01": _seen(ALICE, WARNING)}
    assert (
        "without root: After a boot, check the size: df -h /dev/shm. a100-01: Set"
        in _on_one_line(concise(some, 300, only=["shm"]))
    )


def test_no_advice_is_the_deploy_or_of_root() -> None:
    """That user runs neither it nor a command of root's: both are what root has to do."""
    offenders = []
    for case in ALL:
        findings, _ = findings_of(case)
        host = HostReport(status="drift", findings=findings, without_root=True)
        for each in problems({"n": host}):
            alone, admin = without_root(each, {"n"})
            if "deploy" in alone or not (alone or admin) or OF_ROOT.search(alone):
                offenders.append((str(case), alone))
    assert offenders == []


def test_a_held_repair_is_advised_without_the_deploy() -> None:
    """What the inventory does not name: the other way of the fix."""
    ways = (Way("deploy", "set nccl.environments, and the deploy"), Way("user", "pip install x"))
    finding = findings_of(WHEEL)[0][0].model_copy(update={"ways": ways})
    host = HostReport(status="drift", findings=[finding], without_root=True)
    (one,) = problems({"n": host})
    assert without_root(one, {"n"}) == ("pip install x", "")


def test_a_line_of_the_inventory_needs_no_root() -> None:
    """Whether logins are tried is no setting of a node."""
    case = next(each for each in ALL if str(each) == "ssh.logins-untried/two_nodes")
    host = HostReport(status="drift", findings=findings_of(case)[0], without_root=True)
    (one,) = problems({"a": host})
    alone, admin = without_root(one, {"a"})
    assert alone.startswith("set ssh: {mesh: true} in the inventory") and not admin


def test_a_repair_in_the_home_needs_no_root() -> None:
    """The user does it: the deploy keeps its backups where only root writes."""
    node = _seen(ALICE, {"env": {"launcher": {}}})
    text = concise({"a": Seen(states.wanted({"env": {"OMP_NUM_THREADS": "4"}}), node.state)}, 200)
    assert (
        "without root: rewrite the block between the gpu-node markers in ~/.bashrc"
        in _on_one_line(text)
    )
    assert "as root" not in text
    assert re.search(r"(?m) manual +2$", text)
    assert "repair: gpu-node deploy" not in text


@pytest.mark.parametrize(
    "node", [_seen(FRESH), _seen(ALICE, FRESH, sudo=True), _seen({"limits": {"user": None}}, FRESH)]
)
def test_a_node_that_was_read_by_root_is_as_before(node: Seen) -> None:
    """Or with sudo, or by a user who is not known."""
    text = concise({"a": node}, 120)
    assert "root:" not in text
    assert re.search(r"(?m)^error +a +shm\.too-small .* deploy +2$", text)


def test_a_problem_of_both_kinds_of_nodes() -> None:
    """The deploy repairs the others."""
    text = concise({"a": _seen(ALICE, FRESH), "b": _seen(FRESH)}, 200)
    assert re.search(r"(?m)^error +all +shm\.too-small .* deploy +4$", text)
    assert "without root: a: Set NCCL_BUFFSIZE" in text  # which node it is about


def test_it_can_be_chosen_and_explained() -> None:
    nodes = {"a": _seen(ALICE, CLOSED, FRESH)}
    text = concise(nodes, 120, only=[NEEDS_ROOT])
    assert "needs-root" in text
    assert "shm.too-small" not in text
    assert "driver.next" in concise(nodes, 120, only=["driver.unreadable"])
    assert "ssh: {sudo: true}" in _explained(NEEDS_ROOT)
    assert "without root  Set NCCL_BUFFSIZE=1048576" in _explained("shm.too-small")


def _explained(word: str) -> str:
    return printed(explained.texts(word), plain(io.StringIO(), width=200))


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.id)
def test_a_text_is_sentences(rule: Any) -> None:
    """Where the manual repair writes a file of the system, there is one."""
    assert not rule.without_root or rule.without_root.endswith(".")
    assert rule.without_root or not re.search(r"/etc/(fstab|security|hosts|modprobe)", rule.manual)

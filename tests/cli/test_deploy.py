"""`gpu-node deploy`: what it shows and asks, which runs of pyinfra it starts, and how it ends."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu_node.cli.main import main
from gpu_node.deploy.engine.baseline import handed
from gpu_node.deploy.engine.pyinfra_process import WHOLE, Ended
from gpu_node.facts.ask.gather import Answer
from gpu_node.history.store import identity, opened
from gpu_node.inventories.interrupt import Interrupted
from gpu_node.inventories.wanted import NodeWanted
from tests.drift import states

LOW = {"shm": {"usage": {"size": 67108864}}}
FEW = {"limits": {"session": {"nofile": {"soft": 1024, "hard": 4096}}, "files": []}}
CLOSED = {"shm": {"usage": {"size": 67108864}, "container": {"can_mount": False}}}
GONE = "Connection refused"
GPUS = {"a100": [{}] * 2, "v100": [{"name": "Tesla V100-SXM2-32GB"}] * 2}


class World:
    """Nodes that answer, and what a run of pyinfra does with them."""

    def __init__(self) -> None:
        self.changes: dict[str, dict[str, Any] | str] = {"a100-01": LOW, "v100-01": LOW}
        self.runs: list[list[str]] = []
        self.given: list[object] = []
        # The nodes that are asked alone; of each run, those whose answers it gets.
        self.asked: list[list[str]] = []
        self.handed: list[list[str]] = []
        # The nodes that a run proves, and what it takes for the wanted state of one.
        self.proves: set[str] = set()
        self.wants: dict[str, dict[str, Any]] = {}
        self.fails: set[str] = set()
        self.code = 0
        self.signal = False
        # Whether the inventory allows sudo.
        self.sudo = False
        self.planned: tuple[str, ...] = ()

    def gather(self, *given: Any, **named: object) -> dict[str, Answer]:
        self.given.append(given[-1])
        self.asked.append(list(given[1]))
        return self.answers()

    def answers(self) -> dict[str, Answer]:
        """What the nodes answer now."""
        answers = {}
        for name, change in self.changes.items():
            wanted = {k: v for k, v in states.BASE["wanted"].items() if "gpu" not in k}
            wanted["_sudo"] = self.sudo
            if isinstance(change, str):
                answers[name] = Answer(wanted, error=change)
            else:
                found = {**change, "driver": {"smi": {"gpus": GPUS[name[:4]]}}}
                answers[name] = Answer(wanted, states.state(found), reached=True)
        return answers

    def run(
        self, inventory: str, deploy: Path, options: list[str], answers: dict[str, Any]
    ) -> Ended:
        assert (inventory, deploy) == ("inventories/lab.py", WHOLE)
        self.handed.append(list(answers))
        self.runs.append(list(options))
        if self.signal:
            raise Interrupted
        named = [word.removeprefix("change=") for word in options if word.startswith("change=")]
        nodes = named[-1].split(",") if named else list(self.changes)
        recorded = []
        if "--dry" not in options:
            for name in nodes:
                if name not in self.fails and self.changes[name] in (LOW, FEW):
                    self.changes[name] = {}
                    recorded.append(name)
        failed = tuple(name for name in nodes if name in self.fails)
        name = f"20261122T20482{len(self.runs)}Z-0a1b2c"
        proved = {
            each: handed(NodeWanted.from_data(answer.data | self.wants.get(each, {})), answer.state)
            for each, answer in self.answers().items()
            if each in self.proves and answer.state is not None
        }
        return Ended(1 if failed else self.code, failed, recorded, name, self.planned, proved)


LEFT = "Nothing that the deploy can repair; 1 error needs manual action."

Deploy = Callable[..., tuple[object, str, str]]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    monkeypatch.setattr("gpu_node.cli.asking.gather", world.gather)
    monkeypatch.setattr("gpu_node.cli.asking.limited_data", lambda *_: {})
    monkeypatch.setattr("gpu_node.deploy.deployment.run_pyinfra", world.run)
    return world


@pytest.fixture
def deploy(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> Deploy:
    """Run the command: exit code, stdout and stderr."""

    def ran(*words: str) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["gpu-node", "deploy", "inventories/lab.py", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        output = capsys.readouterr()
        return ended.value.code, output.out, output.err

    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return ran


def test_problems_before_and_after(world: World, deploy: Deploy) -> None:
    """One run of the whole deploy; the words are those of the report."""
    code, out, err = deploy("-y")
    assert (code, world.runs) == (0, [[]])
    assert out.splitlines()[0].startswith("2 nodes, 2 with drift: 1 problem (1 error)")
    assert "shm.too-small  /dev/shm: 64M, want 8G" in out
    assert out.splitlines()[-4:] == [
        "2 nodes, 2 ok: no problems",
        "A job can start on 0 of 2 nodes; unknown: no PyTorch found",
        "  repaired  all  shm.too-small",
        "run 20261122T204821Z-0a1b2c on all; to take it back on a100-01, and so on each of them: "
        "gpu-node restore inventories/lab.py a100-01 --run 20261122T204821Z-0a1b2c",
    ]
    assert err == ""


def test_the_end_of_a_run_says_what_is_left_and_why(world: World, deploy: Deploy) -> None:
    """And on which nodes; what a person has to do is not the fault of the run."""
    world.changes |= {"a100-02": CLOSED, "v100-02": GONE}
    world.fails = {"v100-01"}
    code, out, _ = deploy("-y")
    assert code == 1
    assert [line.split(maxsplit=2) for line in out.splitlines()[-5:-1]] == [
        ["repaired", "a100-01", "shm.too-small"],
        ["left", "v100-02", "unreachable"],
        ["left", "v100-01", "shm.too-small: not repaired, see above"],
        ["left", "a100-02", "shm.container: needs manual action"],
    ]


def test_a_run_is_kept_in_the_history(world: World, deploy: Deploy) -> None:
    """What it has repaired on each node, by the id of the run."""
    deploy("-y", "--batch", "1")
    with opened() as store:
        events = store.events(identity("inventories/lab.py"))
    assert [(each.node, each.kind, each.name[14:16], each.words) for each in events] == [
        ("a100-01", "deploy", "1Z", "repaired shm.too-small"),
        ("v100-01", "deploy", "2Z", "repaired shm.too-small"),
    ]


ALICE = {"limits": {"user": {"name": "alice", "uid": 1000, "gids": [1000], "groups": ["alice"]}}}
BOB = {"limits": {"user": {"name": "bob", "uid": 1001, "gids": [1001], "groups": ["bob"]}}}


ASKED: dict[str, tuple[dict[str, Any], dict[str, dict[str, Any]], list[list[str]]]] = {
    "each is proved": ({}, {}, [[]]),
    "one is not proved": ({"a100-02": GONE}, {}, [[], ["a100-02"]]),
    "the inventory was edited": ({}, {"v100-01": {"shm_size": "9G"}}, [[], ["v100-01"]]),
}


@pytest.mark.parametrize(("changes", "wants", "asked"), ASKED.values(), ids=ASKED)
def test_who_is_asked_after_a_run(
    world: World,
    deploy: Deploy,
    changes: dict[str, Any],
    wants: dict[str, dict[str, Any]],
    asked: list[list[str]],
) -> None:
    """The nodes that it has not proved, or by another inventory."""
    world.changes |= changes
    world.proves, world.wants = {*world.changes}, wants
    code, out, _ = deploy("-y")
    assert (code, world.asked) == (1 if changes else 0, asked)
    assert "repaired  a100-01, v100-01  shm" in out or "repaired  all  shm" in out


def test_which_answers_a_run_gets(world: World, deploy: Deploy) -> None:
    """Those of nodes of which root's facts are there; a batch after the first gets none."""
    world.changes |= {"a100-02": LOW | ALICE, "v100-02": GONE}
    deploy("-y", "--batch", "1")
    assert world.handed == [["a100-01", "v100-01"], []]
    deploy("--dry")
    assert world.handed[2:] == []


def test_without_root_there_is_no_run(world: World, deploy: Deploy) -> None:
    """One line for the nodes, with what makes a run possible."""
    world.changes = {name: LOW | ALICE for name in ("a100-01", "a100-02")}
    code, out, err = deploy("-y")
    assert (code, world.runs) == (1, [])
    assert "Set NCCL_BUFFSIZE" in out
    (line,) = err.splitlines()
    assert line.startswith("a100-[01-02]: the deploy needs root, and alice is not root: write `ssh")
    assert "`alice ALL=(ALL) NOPASSWD: ALL`" in line


REFUSED = {"ssh": {"sudo_refusal": "sudo: a password is required"}}
NO_ROOT = {
    "no sudo": (ALICE, "alice is not root: write `ssh: {sudo: true}` into the inventory"),
    "a password": (
        ALICE | REFUSED,
        "sudo refuses: sudo asks alice for a password: run gpu-node with --ask-sudo-password",
    ),
}


@pytest.mark.parametrize("words", [["-y"], ["--dry"]])
@pytest.mark.parametrize(("user", "why"), NO_ROOT.values(), ids=NO_ROOT)
def test_what_root_alone_would_see_is_not_nothing_to_repair(
    world: World, deploy: Deploy, words: list[str], user: dict[str, Any], why: str
) -> None:
    """Nothing was found that a deploy repairs, and a part was not read."""
    world.changes = {"a100-01": CLOSED | user}
    code, _, err = deploy(*words)
    assert (code, world.runs) == (1, [])
    (line,) = err.splitlines()
    assert line.startswith(f"a100-01: the deploy needs root, and {why}")


@pytest.mark.parametrize("words", [["-y"], ["--dry", "--areas", "shm"]])
def test_where_sudo_asks_for_a_password_there_is_no_run(
    world: World, deploy: Deploy, words: list[str]
) -> None:
    """It could repair nothing; the last line is the same command with a password."""
    world.changes = {"a100-01": LOW | ALICE | REFUSED}
    world.sudo = True
    code, out, err = deploy(*words)
    assert (code, world.runs) == (1, [])
    assert "Not listed" not in err and "repair: gpu-node deploy" not in out
    rest = "" if "-y" in words else " --data areas=shm --dry"
    assert f"next: gpu-node deploy inventories/lab.py{rest} --ask-sudo-password" in out


def test_nodes_without_root_are_named_once_for_each_user(world: World, deploy: Deploy) -> None:
    """In whatever order the inventory has them."""
    users = {"a100-01": ALICE, "a100-02": BOB, "v100-01": ALICE}
    world.changes = {name: LOW | user for name, user in users.items()}
    _, _, err = deploy("-y")
    lines = [line.partition(": write ")[0] for line in err.splitlines()]
    assert lines == [
        "a100-01, v100-01: the deploy needs root, and alice is not root",
        "a100-02: the deploy needs root, and bob is not root",
    ]


def test_a_node_without_root_stops_no_other(world: World, deploy: Deploy) -> None:
    """It is named, and the question is about the others; the run ends with 1."""
    world.changes["a100-01"] = LOW | ALICE
    world.fails = {"a100-01"}
    code, _, err = deploy("-y")
    assert (code, world.runs) == (1, [[]])
    assert err.startswith("a100-01: the deploy needs root")


def test_without_a_terminal_it_does_not_ask(world: World, deploy: Deploy) -> None:
    code, out, err = deploy()
    assert (code, world.runs) == (1, [])
    assert "shm.too-small" in out
    assert err == "gpu-node: found no terminal to confirm the repair; allowed: a terminal, or -y\n"


@pytest.mark.parametrize(("answer", "runs"), [(True, [[]]), (False, [])])
def test_on_a_terminal_it_asks(
    world: World, deploy: Deploy, monkeypatch: pytest.MonkeyPatch, answer: bool, runs: list[Any]
) -> None:
    """The question names the problems and the nodes; a no changes nothing."""
    asked: list[str] = []
    user = "gpu_node.deploy.console.UserConsole"
    monkeypatch.setattr(f"{user}.is_attended", property(lambda _: True))

    def ask(_: object, question: str) -> bool:
        asked.append(question)
        return answer

    monkeypatch.setattr(f"{user}._ask", ask)
    code, _, err = deploy()
    assert (code, world.runs) == (0 if answer else 1, runs)
    assert asked == ["Repair this problem on all?"]
    assert ("found no confirmation (nothing was changed)" in err) == (not answer)


def test_nothing_to_repair(world: World, deploy: Deploy) -> None:
    """No run: nothing would be changed; what only a person repairs is an error."""
    world.changes = {"a100-01": {}, "v100-01": {}}
    assert deploy() == (0, "2 nodes, 2 ok: no problems\n", "Nothing to repair.\n")
    world.changes["v100-01"] = CLOSED
    code, out, err = deploy("-y")
    assert (code, world.runs, err) == (1, [], f"{LEFT}\n")
    assert "shm.container" in out and "manual" in out


def test_a_dry_run_with_nothing_to_repair(world: World, deploy: Deploy) -> None:
    """It fails where a node does not answer; what a person repairs is no failure of it."""
    world.changes = {"a100-01": {}, "v100-01": CLOSED}
    code, _, err = deploy("--dry")
    assert (code, world.runs, err) == (0, [], f"{LEFT}\n")
    world.changes["a100-01"] = GONE
    assert deploy("--dry")[0] == 1


def test_no_node_answers(world: World, deploy: Deploy) -> None:
    """That is not "nothing to repair"."""
    world.changes = {"a100-01": GONE}
    code, _, err = deploy("-y")
    assert (code, world.runs, err) == (1, [], "No node could be read.\n")


def test_a_switch_is_a_run(world: World, deploy: Deploy) -> None:
    """--data reboot=true repairs what no other run does."""
    world.changes = {"a100-01": {}}
    code, *_ = deploy("-y", "--data", "reboot=true")
    assert (code, world.runs) == (0, [["--data", "reboot=true"]])


def test_options_are_pyinfras(world: World, deploy: Deploy) -> None:
    """--areas is --data areas=; values are used for the problems as well."""
    words = ["--limit", "a100", "--data", "shm_size=16G", "--data", "ssh_user=green"]
    code, out, _ = deploy("-y", *words, "--areas", "shm")
    assert (code, world.runs) == (0, [[*words, "--data", "areas=shm"]])
    assert world.given[0] == {"shm_size": "16G", "ssh_user": "green", "areas": "shm"}
    assert "limits" not in out


def test_a_part_of_the_areas(world: World, deploy: Deploy) -> None:
    """A problem of another area is neither shown nor decides the exit code."""
    code, out, err = deploy("-y", "--areas", "limits,env")
    assert (code, world.runs) == (0, [])
    assert out == "limits, env alone: 2 nodes, 2 ok: no problems\n"
    assert err == "Nothing to repair.\n"


def test_a_part_of_the_areas_is_not_the_answer(world: World, deploy: Deploy) -> None:
    """Whether a job can start is of all areas, also after a repair of one."""
    world.changes = {"a100-01": FEW, "v100-01": CLOSED}
    code, out, err = deploy("-y", "--areas", "limits")
    assert (code, err) == (0, "")
    assert "limits alone: 2 nodes, 2 ok: no problems" in out
    assert "; stopped by: shm.container (v100-01)" in out


def test_a_dry_run_asks_nothing(world: World, deploy: Deploy) -> None:
    code, _, err = deploy("--dry", "--batch", "1")
    assert (code, world.runs) == (0, [["--dry"]])
    assert err.splitlines()[:2] == ["batch 1: a100-01", "batch 2: v100-01"]


def test_a_dry_run_ends_with_what_would_change(world: World, deploy: Deploy) -> None:
    """What each operation would do, a line for each node, and the command that changes them."""
    world.changes = {"a100-01": LOW, "a100-02": {}, "v100-01": LOW, "v100-02": GONE}
    world.fails = {"v100-01"}
    world.planned = ("Write /etc/fstab on a100-01:", "  /etc/fstab: changes", "    +x\x1b[31m")
    code, out, err = deploy("--dry", "--areas", "shm", "--batch", "1")
    assert (code, err.splitlines()[-1]) == (1, "Nothing was changed.")
    assert "Not listed: what shows only after a repair" in err
    assert out.splitlines()[-8:] == [
        *("Write /etc/fstab on a100-01:", "  /etc/fstab: changes", "    +x\\x1b[31m"),
        "  a100-01  would repair shm.too-small",
        "  a100-02  nothing to repair",
        "  v100-01  not planned; its error is above",
        "  v100-02  unreachable",
        "repair: gpu-node deploy inventories/lab.py --data areas=shm --batch 1",
    ]


def test_a_run_that_fails(world: World, deploy: Deploy) -> None:
    """1, also where pyinfra ends with another code; the table shows what is left."""
    world.fails, world.code = {"a100-01"}, 3
    code, out, _ = deploy("-y")
    row, _, *last, answer = out.splitlines()[-9:-3]
    assert answer.startswith("A job can start on ")
    assert (code, row.split()[:3]) == (1, ["error", "a100-01", "shm.too-small"])
    assert last == [
        "more: gpu-node explain shm.too-small",
        "every finding: gpu-node drift inventories/lab.py --full",
        "repair: gpu-node deploy inventories/lab.py",
    ]


def test_a_node_that_is_away(world: World, deploy: Deploy) -> None:
    """The others are repaired, and the exit code is 1."""
    world.changes["v100-01"] = GONE
    code, out, _ = deploy("-y")
    assert (code, world.runs) == (1, [[]])
    assert out.count(GONE) == 2


def test_batches(world: World, deploy: Deploy) -> None:
    """One node of each model first; each run proves those of the earlier ones again."""
    world.changes = {name: LOW for name in ("a100-01", "a100-02", "v100-01", "v100-02")}
    world.changes["a100-03"] = {}
    code, _, err = deploy("-y", "--batch", "2")
    assert code == 0
    assert world.runs == [
        ["--data", "change=a100-01,v100-01"],
        ["--data", "change=a100-01,v100-01,a100-02,v100-02"],
    ]
    assert err.splitlines() == [
        "== batch 1 of 2: a100-01, v100-01",
        "== batch 2 of 2: a100-02, v100-02",
    ]


def test_a_batch_that_is_not_proved_ends_the_run(world: World, deploy: Deploy) -> None:
    """The others stay as they are, and are named."""
    world.changes = {name: LOW for name in ("a100-01", "a100-02", "v100-01")}
    world.fails = {"a100-01"}
    code, out, err = deploy("-y", "--batch", "1")
    assert (code, world.runs) == (1, [["--data", "change=a100-01"]])
    assert err.splitlines()[-1] == "Batch 1 is not proved; not changed: v100-01, a100-02."
    row, *_, last, _ = out.splitlines()[-8:-2]
    assert row.split()[:3] == ["error", "all", "shm.too-small"]
    assert last == "repair: gpu-node deploy inventories/lab.py --batch 1"


def test_a_node_that_is_away_does_not_end_the_batches(world: World, deploy: Deploy) -> None:
    """It is in no batch; the exit code is 1 in the end."""
    world.changes = {"a100-01": LOW, "a100-02": GONE, "v100-01": LOW}
    code, *_ = deploy("-y", "--batch", "1")
    assert (code, len(world.runs)) == (1, 2)


def test_ctrl_c(world: World, deploy: Deploy) -> None:
    world.signal = True
    code, _, err = deploy("-y")
    assert (code, err.splitlines()[-1]) == (
        *(1, "gpu-node: interrupted, not proved; the next run finishes"),
    )
    with opened() as store:
        kept = {each.node: each.name for each in store.events(identity("inventories/lab.py"))}
    assert kept == dict.fromkeys(("a100-01", "v100-01"), "interrupted")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--data", "shm_size"], "--data: found 'shm_size'; allowed: KEY=VALUE"),
        (["--data", "=1"], "--data: found '=1'; allowed: KEY=VALUE"),
        (["--data", "a=1", "--data", "a=2"], "--data: found 'a' twice; allowed: once"),
        (["--data", "areas=shm", "--areas", "ssh"], "--data: found 'areas' twice"),
        (["--areas", "shmm"], "--areas: found 'shmm' (no such area, did you mean shm?)"),
        (["--areas", ""], "--areas: found '' (no such area)"),
        (["--batch", "0"], "--batch: found '0'; allowed: a number of nodes"),
        (["--batch", "half"], "--batch: found 'half'; allowed: a number of nodes"),
        (
            ["--batch", "1", "--data", "change=a100-01"],
            "found --batch with --data change=; allowed: one of them",
        ),
    ],
)
def test_bad_words(world: World, deploy: Deploy, words: list[str], message: str) -> None:
    """Before any node is asked."""
    code, out, err = deploy("-y", *words)
    assert (code, out, world.runs, world.given) == (1, "", [], [])
    assert message in err

"""What a restore makes of the records of a node: which it refuses, and where each file is back."""

from __future__ import annotations

import os
import re
from collections import Counter
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyinfra.api import StringCommand

from gpu_node.deploy.driver.operations import KERNEL_HOLD
from gpu_node.deploy.engine.scripts import FILES, script, text
from gpu_node.deploy.files.changes import changed_lines
from gpu_node.deploy.files.replace import ABSENT
from gpu_node.deploy.restore.commands import left_alone
from gpu_node.deploy.restore.records import RunRecord, Unusable, parse, place_of, runs_back_to
from tests import case_files
from tests.case_files import Case
from tests.examples import examples
from tests.node_scripts import run

CASES = case_files.cases(Path(__file__).parent / "restore")
SUMS = {"$A": sha256(b"a").hexdigest(), "$B": sha256(b"b").hexdigest()}
WHEN = datetime(2027, 1, 15, tzinfo=timezone.utc)
PATH, RUN = "/etc/fstab", "20270115T080000Z"


def of(subject: str) -> list[Case]:
    """The cases of one subject."""
    return [case for case in CASES if case.subject == subject]


def answer_of(case: Case) -> list[str]:
    """The lines that a node sends: those of the case, or one of a run with a line of it."""
    data, run = case.data, f"run 1 {RUN}"
    lines = list(data.get("answer", ()))
    if "line" in data:
        lines = [run, f"manifest {data['line']}", "end"]
    if "also" in data:
        lines = [run, f"also {data['also']}", "end"]
    if "also_long" in data:
        lines = [run, f"also + copy /{'x' * data['also_long']}", "end"]
    if "repeated" in data:
        many = data["repeated"]
        each = [many["line"].replace("$N", f"{at:02}") for at in range(many["times"])]
        lines = [*filter(None, [many.get("first")]), *each, "end"]
    for name, value in SUMS.items():
        lines = [line.replace(name, value) for line in lines]
    return lines


@pytest.mark.parametrize("case", of("records"), ids=str)
def test_an_answer(case: Case) -> None:
    """Its runs and their files, what a line costs, or the reason why nothing of it is used."""
    try:
        runs = parse(answer_of(case))
        problem = next((run.problem for run in runs if run.problem), "")
    except Unusable as error:
        runs, problem = (), str(error)
    if "problem" in case.data:
        assert case.data["problem"] in problem
        assert problem.isprintable() and len(problem) < 400
        return
    unread = [each for run in runs for each in run.unread.items()]
    for _, why in unread:
        about = "(gpu-node did not write this line|no run of \\w)"
        assert re.fullmatch(f"run {RUN}: {about}.+", why)
        assert why.isprintable() and len(why) < 400
    last = case.data.get("line", "").rpartition(" ")[2]
    costs = [last if last.startswith("/") else ""] if "line" in case.data else []
    left = case.data.get("left", costs)
    named = ["" if path == why else path for path, why in unread]
    assert problem == "" and named == left
    found = {run.name: [each.path for each in run.changes] for run in runs}
    assert found == case.data.get("runs", {RUN: []})
    assert "runs" in case.data or not runs[0].also


@pytest.mark.skipif(os.geteuid() != 0, reason="records are root's")
@pytest.mark.parametrize("case", of("walk"), ids=str)
def test_a_way_back(case: Case, tmp_path: Path, shell: str) -> None:
    """Where a file is back, and which run has the copy; or why it stays."""
    top = tmp_path / "runs"
    for run_id, lines in case.data["runs"].items():
        changes = [line.replace("-", ABSENT).replace(">", " ") for line in lines]
        (top / run_id).mkdir(parents=True)
        text = "".join(f"{change} 640 0:0 root {PATH}\n" for change in changes)
        (top / run_id / "manifest").write_text(text)
    given = {"top": str(top), "runs": " ".join(case.data["runs"]), "as_user": ""}
    now = case.data["now"].replace("-", ABSENT)
    asked = f"{script('walk', **given).get_raw_value()}\nway_back {now} {PATH}"
    done = run(StringCommand(asked), shell)
    before = case.data.get("before", "").replace("-", ABSENT)
    wanted = f"left {case.data.get('problem')}" if "problem" in case.data else "same"
    if before not in ("", now):
        wanted = f"back {before} 640 0:0 {case.data.get('backup', '')}"
    assert (done.code, done.err) == (0, "")
    assert done.out.strip() == wanted or (before == ABSENT and done.out.startswith(wanted))


def test_back_to_a_run() -> None:
    """All runs after it are taken back first; of a run that is not there, none."""
    runs = [RunRecord(name, WHEN) for name in ("R3", "R2", "R1")]
    assert [run.name for run in runs_back_to(runs, "R2")] == ["R3", "R2"]
    assert runs_back_to(runs, "R9") == ()


@pytest.mark.parametrize("case", of("commands"), ids=str)
def test_what_is_left_to_the_user(case: Case) -> None:
    """Its words are those of one command for each, also for a shell."""
    runs = parse([f"run 1 {RUN}", *(f"also {line}" for line in case.data["also"]), "end"])
    shown = [line.replace("/top/R/", f"/top/{RUN}/") for line in case.data["shown"]]
    assert [*left_alone(runs, "/top")] == shown


# Paths that no inventory and no node gives: a case is about their form.
MADE_UP = {"/etc/a'b; reboot", "/etc/l.conf", "/etc/systemd/system/x.d/zz.conf"}
# What `put` writes in scripts, where a variable is a part of it.
PUT = {
    "/etc/systemd/system/nvidia-persistenced.service.d/gpu-node.conf",
    "/etc/systemd/system/gpu-node-persistence.service",
}
_PATH = re.compile(r"=(/(?:etc|var/lib)/[\w./-]+\.\w+|/etc/pki/[\w./-]+)$", re.MULTILINE)


def written() -> list[tuple[str, str]]:
    """The files that operations write, each with its user."""
    folder = Path(__file__).parent / "operations"
    commands = (
        command for case in case_files.cases(folder) for command in case.data.get("commands", ())
    )
    found = {
        (str(each["file"]), str(each.get("user", "root")))
        for each in commands
        if isinstance(each, dict) and each.get("script") == "replace"
    }
    put = {path for name in FILES if " | put " in text(name) for path in _PATH.findall(text(name))}
    return sorted(found | {(path, "root") for path in put | PUT | {KERNEL_HOLD}})


@pytest.mark.parametrize(("path", "user"), written())
def test_what_a_run_writes_can_be_put_back(path: str, user: str) -> None:
    """Each file of an operation's case is in a place that a restore accepts."""
    assert place_of(path, user) is not None or path in MADE_UP


def test_lines_that_stay_are_not_shown() -> None:
    """They are the user's, and may have a secret; a line of dashes is one of the file."""
    now, new = "token=SECRET\nours\n--- end\n", "token=SECRET\n--- end\n"
    shown = [*changed_lines("/root/.bashrc", now, new)]
    assert shown == ["/root/.bashrc: changes", "  -ours"]
    assert [*changed_lines("/x", "a\n-- end\n", "a\n")][1:] == ["  --- end"]
    proxy = "export https_proxy=http://me:planted@proxy\n"
    assert [*changed_lines("/x", f"# {proxy}", proxy)][1:] == [
        "  -# export https_proxy=http://...@proxy",
        "  +export https_proxy=http://...@proxy",
    ]
    assert [*changed_lines("/x", "", "a" * 5000)][2:] == [f"  +{'a' * 4095}... (905 more bytes)"]
    assert [*changed_lines("/x", None, "gr\xc3\xb6\xdf\n")][1:] == ["  +grö\\xdf"]


def test_a_change_in_a_large_file() -> None:
    """Its line is shown; of a file of millions of lines none is."""
    now = "\n" * 99_000
    shown = [*changed_lines("/etc/hosts", now, f"{now[:5000]}ours{now[5000:]}")]
    assert shown[1:] == ["  -", "  +ours"]
    assert "too many lines to compare here" in [*changed_lines("/x", "\n" * (11 << 20), "a")][1]


@settings(max_examples=examples(1000), deadline=None)
@given(st.text("ab\n"), st.text("ab\n"))
def test_each_line_that_changes(old: str, new: str) -> None:
    """As many lines of each text are shown as the other one lacks."""
    shown = [line[2:] for line in [*changed_lines("/x", old, new)][1:]]
    for sign, one, other in (("-", old, new), ("+", new, old)):
        lacking = Counter(one.split("\n")) - Counter(other.split("\n"))
        lines = Counter(line[1:] for line in shown if line.startswith(sign))
        assert lines >= lacking or len(shown) > 60


def test_a_huge_file_is_not_compared() -> None:
    """difflib takes quadratic time: lines that all differ end at once."""
    now, new = ("\n".join(f"{at}{end}" for at in range(90_000)) for end in "ab")
    assert "too many to compare here" in [*changed_lines("/etc/hosts", now, new)][1]
    many = "".join(f"{at}\n" for at in range(500))
    assert len([*changed_lines("/etc/hosts", many, "")]) == 62

"""The whole report: it fits the console, has all facts, and takes no orders from a node."""

from __future__ import annotations

import io
import re
from json import loads
from pathlib import Path
from typing import Any
from unicodedata import category

import pytest
from rich.console import Console

from gpu_node.drift.engine.shown_facts import FACTS
from gpu_node.drift.report import full
from gpu_node.drift.report.seen import Seen
from gpu_node.drift.report.signs import WRONG
from gpu_node.drift.report.view import View
from tests.drift import states
from tests.drift.reports import FRESH, GONE, KINDS, THREE, drawn, report, written
from tests.drift.rule_cases import ALL, findings_of

SNAPSHOT = Path(__file__).with_name("full-80.txt")

# What every node has, whatever the inventory names.
# The facts of a node without Python environments and without a mesh.
ALWAYS = [fact for fact in FACTS if fact.is_asked(states.state())]


def _many() -> dict[str, Seen]:
    return {f"gpu-{number:02}.cluster": states.seen(FRESH) for number in range(9)}


@pytest.mark.parametrize("width", [80, 160])
@pytest.mark.parametrize("nodes", [THREE, KINDS, _many()], ids=["three", "kinds", "many"])
def test_it_fits_and_has_everything(nodes: dict[str, Seen], width: int) -> None:
    """No line is longer than the terminal; every node, rule, found and error is there."""
    text = drawn(nodes, width)
    assert max(map(len, text.splitlines())) <= width
    words = " ".join(text.split())
    for name, host in report(nodes).hosts.items():
        assert name in words
        for finding in host.findings:
            assert finding.rule in words
        assert host.error is None or host.error in words


def test_a_terminal_gets_colour_and_the_same_words() -> None:
    """A sign shows the same as colour."""
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system="standard")
    console.print(full.render(View(report(THREE)), console.width))
    assert isinstance(console.file, io.StringIO)
    assert "\x1b[" in console.file.getvalue()
    assert f"64M {WRONG}" in drawn(THREE, 80)


LARGER = {"shm": {"usage": {"size": 17179869184}}}
NO_SIZE: dict[str, Any] = {
    "shm": {"usage": None},
    "unreadable": [{"area": "shm", "section": "shm.size", "reason": "no answer within 5 s"}],
}


def test_what_a_finding_reports_is_reported_once() -> None:
    """A section that could not be read is no difference beside its own finding."""
    nodes = {"n": states.seen(), "m": states.seen(NO_SIZE)}
    (difference,) = report(nodes).differences
    assert (difference.fact, difference.drift) == ("shm.size", False)
    text = drawn(nodes, 80)
    assert "shm.unreadable" in text
    assert "shm.differs" not in text


def test_what_no_other_finding_reports_is_a_difference() -> None:
    """A value that no section failed to give, and that is missing all the same."""
    lost = {"shm": {"usage": None}}
    free = {"n": states.seen(None, shm_size=None), "m": states.seen(lost, shm_size=None)}
    assert _entries(free) == [
        ("warning  shm.differs  m", "shm.size: unreadable", "8G, as on n"),
    ]
    half = {**free, "m": states.seen(NO_SIZE, shm_size=None)}
    assert [head for head, _, _ in _entries(half)] == ["error  shm.unreadable  m"]


def _entries(nodes: dict[str, Seen]) -> list[tuple[str, str, str]]:
    """Return the head, what was found and what is wanted of each entry below the matrix."""
    heads, founds, wanteds = (
        re.findall(rf"(?m)^{start}(.*?) *$", drawn(nodes, 200))
        for start in ("(?=(?:error|warning|info)  )", "  found +", "  wanted +")
    )
    return list(zip(heads, founds, wanteds, strict=True))


def test_nodes_that_differ_are_one_entry() -> None:
    """Without a majority each has the finding: one entry names all nodes, with their values."""
    free = {"shm_size": None, "limits_nofile": None}
    low = {"limits": {"session": {"nofile": {"soft": 1024}}}}
    nodes = {"n": states.seen(None, **free), "m": states.seen({**LARGER, **low}, **free)}
    assert _entries(nodes) == [
        (
            "warning  shm.differs  n, m",
            "shm.size: 8G on n; 16G on m",
            "the same on all nodes of GPU model A100; found: 8G on n; 16G on m",
        ),
        (
            "warning  limits.differs  n, m",
            "limits.nofile: 131072/131072 on n; 1024/131072 on m",
            "the same on all nodes; found: 131072/131072 on n; 1024/131072 on m",
        ),
    ]
    assert drawn(nodes, 80).splitlines()[-2].rstrip() == "2 nodes, 2 drift; findings: 4 warnings"


def test_a_node_unlike_the_majority_is_named_alone() -> None:
    """What the others have is what is wanted of it."""
    nodes = {name: states.seen(None, shm_size=None) for name in ("k", "n")}
    nodes["m"] = states.seen(LARGER, shm_size=None)
    assert _entries(nodes) == [("warning  shm.differs  m", "shm.size: 16G", "8G, as on k, n")]
    assert f"16G {WRONG}" in drawn(nodes, 80) and f"8G {WRONG}" not in drawn(nodes, 80)


def test_a_node_of_which_nothing_is_known() -> None:
    """Each of its values is called unreadable, beside a node that answers."""
    areas = {area: dict.fromkeys(fields) for area, fields in states.BASE["found"].items()}
    del areas["ssh"]  # left out on both
    text = drawn({"n": states.seen(areas), "m": states.seen()}, 80)
    matrix = text[: text.index("\n\n")]
    assert matrix.count("unreadable") == len(ALWAYS)


EVIL = "\x1b]0;owned\x07\x1b[2J\r\x9b1m\x7f\u202e\u2066x\x85y\u2028[/red]:x:"
SHOWN = r"\x1b]0;owned\x07\x1b[2J\r\x9b1m\x7f\u202e\u2066x\x85y\u2028[/red]:x:"


def _evil() -> dict[str, Seen]:
    """Return nodes that bring control characters to each place of the table where they can."""
    unread = {"area": "toolchain", "section": "toolchain.cmake", "reason": f"got {EVIL}"}
    fstab = {"line": 1, "fstype": f"nfs{EVIL}", "options": "", "size": f"size {EVIL}"}
    strange = {"toolchain": {"os": EVIL, "cmake": None}, "unreadable": [unread]}
    return {
        "gpu-01": states.seen(strange),
        "gpu-02": states.seen({"shm": {"fstab": [fstab]}}),
        "gpu-03": Seen(states.wanted(), error=f"one {EVIL}\ntwo", reached=False),
    }


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("width", [20, 80, 300])
def test_a_node_cannot_steer_a_terminal(width: int, terminal: bool) -> None:
    """Escape and control characters are shown as text wherever a node's words are printed."""
    console = Console(
        file=io.StringIO(), width=width, force_terminal=terminal, color_system="standard"
    )
    console.print(full.render(View(report(_evil())), console.width))
    assert isinstance(console.file, io.StringIO)
    text = re.sub(r"\x1b\[[0-9;]*m", "", console.file.getvalue())
    hidden = ("Cc", "Cf", "Cs", "Zl", "Zp")
    assert [char for char in text if category(char) in hidden and char != "\n"] == []


def test_the_output_of_a_node_is_shown() -> None:
    """In the matrix, as found, and as the error of a node without an answer."""
    text = drawn(_evil(), 300)
    assert f"toolchain.os          {SHOWN} " in text
    assert f"found   toolchain.cmake: got {SHOWN}" in text
    assert f"line 1: type nfs{SHOWN}" in text
    assert "shm.fstab             8G    " in text and f"size {SHOWN}" in text


def test_an_error_of_many_lines_keeps_them() -> None:
    """A newline in an error starts a line of the report."""
    assert [f"  one {SHOWN}", "  two"] == [
        line.rstrip() for line in drawn(_evil(), 300).splitlines() if re.match("  (one|two)", line)
    ]


def test_json_keeps_what_was_found() -> None:
    """Data are for programs: nothing is rewritten, and JSON escapes what it must."""
    text = written("json", report(_evil()))
    assert "\x1b" not in text
    assert loads(text)["hosts"]["gpu-01"]["facts"]["toolchain"]["os"] == EVIL


def test_it_is_as_recorded() -> None:
    """A look at the whole; after a wanted change: python -m tests.drift.test_full."""
    assert _recorded() == SNAPSHOT.read_text()


def _recorded() -> str:
    return "".join(f"{line.rstrip()}\n" for line in drawn(THREE, 80).splitlines())


@pytest.mark.parametrize(
    ("nodes", "last"),
    [
        ({"n": KINDS["ok"]}, "1 node, 1 ok; findings: none"),
        ({"n": KINDS["ok"], "m": KINDS["ok"]}, "2 nodes, 2 ok; findings: none"),
        ({"n": KINDS["ok"], "m": GONE}, "2 nodes, 1 ok, 1 unreachable; findings: none"),
    ],
)
def test_a_report_without_findings_ends_with_its_summary(nodes: dict[str, Seen], last: str) -> None:
    """Nothing to repair is proposed, and the count of each status is shown."""
    assert drawn(nodes, 80).splitlines()[-2].rstrip() == last


def test_what_only_hands_can_repair_is_not_proposed_to_the_deploy() -> None:
    """No line `repair: pyinfra ...` where it would repair nothing."""
    closed = {"shm": {"usage": {"size": 67108864}, "container": {"can_mount": False}}}
    text = drawn({"n": states.seen(closed)}, 80)
    assert "shm.container" in text
    assert "repair:" not in text
    assert "repair: gpu-node deploy inventories/lab.py" in drawn({"n": KINDS["warning"]}, 80)


def _cluster(count: int) -> dict[str, Seen]:
    """Return nodes, each with its own value of every fact that is free text."""
    return {
        f"gpu-{number:02}": states.seen(
            {"toolchain": {"os": f"Ubuntu 22.04.{number}", "kernel": f"5.15.0-{number}-generic"}}
        )
        for number in range(count)
    }


def _values(node: Seen) -> list[str]:
    """Return what the matrix should show of a node that is ok."""
    assert node.state is not None
    return ["ok", *(str(fact.value(node.state)) for fact in ALWAYS)]


def _columns(text: str) -> dict[str, list[str]]:
    """Return each node's values as the matrix shows them; cells stand two blanks apart."""
    columns: dict[str, list[str]] = {}
    *blocks, _summary = re.split(r"\n *\n", text)
    for block in blocks:
        header, *rows = (re.split(r" {2,}", line.strip()) for line in block.splitlines())
        assert [label for label, *_ in rows] == ["status", *(fact.name for fact in ALWAYS)]
        columns |= {name: [row[at] for row in rows] for at, name in enumerate(header, 1)}
    return columns


@pytest.mark.parametrize("width", [80, 160])
@pytest.mark.parametrize("count", [1, 2, 8, 10, 20, 40])
def test_no_node_is_squeezed_out_of_the_matrix(count: int, width: int) -> None:
    """Every node has a column, and each of its values is there in one piece."""
    nodes = _cluster(count)
    text = drawn(nodes, width)
    assert max(map(len, text.splitlines())) <= width
    assert _columns(text) == {name: _values(node) for name, node in nodes.items()}


@pytest.mark.parametrize(("width", "blocks"), [(80, [2, 2, 2, 2]), (160, [6, 2])])
def test_as_many_nodes_side_by_side_as_fit(width: int, blocks: list[int]) -> None:
    """The next ones stand below, under a header and after a blank line of their own."""
    *found, _summary = re.split(r"\n *\n", drawn(_cluster(8), width))
    assert [len(block.splitlines()[0].split()) for block in found] == blocks


@pytest.mark.parametrize("count", [1, 2, 8, 10, 20, 40])
def test_a_console_too_narrow_for_a_matrix(count: int) -> None:
    """Each node stands below the other, each value below its name."""
    nodes = _cluster(count)
    lines = [line.strip() for line in drawn(nodes, 20).splitlines()]
    assert max(map(len, lines)) <= 20
    for name, node in nodes.items():
        start = lines.index(name) + 1
        shown = "".join(lines[start : lines.index("", start)])
        labels = ["status", *(fact.name for fact in ALWAYS)]
        pairs = zip(labels, _values(node), strict=True)
        assert shown.replace(" ", "") == "".join(map("".join, pairs)).replace(" ", "")


@pytest.mark.parametrize("width", [5, 20, 41, 42, 60])
def test_a_very_long_value_may_fold(width: int) -> None:
    """Nothing of it is lost, whatever the width."""
    long = "/".join(["/home/user", *(f"part{number}" for number in range(20)), "cmake"])
    node = states.seen({"toolchain": {"cmake": {"found": [_cmake(long)]}}})
    text = drawn({"gpu-00": states.seen(), "gpu-01": node}, width)
    assert max(map(len, text.splitlines())) <= width
    assert long in "".join(text.split())


def _cmake(path: str) -> dict[str, str]:
    return {"path": path, "real": path, "version": "3.25.2", "output": "cmake version 3.25.2"}


def test_a_long_value_of_each_node_leaves_room_for_two() -> None:
    """A folded path costs less than nodes that no longer stand side by side."""
    path = "/home/user/miniconda3/envs/training/bin/cmake"
    change = {"toolchain": {"cmake": {"found": [_cmake(path)]}}}
    text = drawn({f"gpu-{number}": states.seen(change) for number in range(6)}, 160)
    assert text.splitlines()[0].split() == ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]


@pytest.mark.parametrize("width", [80, 160])
def test_two_nodes_are_one_block(width: int) -> None:
    """Two nodes stand side by side even where the name of a system has to fold for it."""
    debian = {"toolchain": {"os": "Debian GNU/Linux 12 (bookworm)"}}
    text = drawn({"a100-01": states.seen(debian), "v100-01": states.seen(debian)}, width)
    assert text.splitlines()[0].split() == ["a100-01", "v100-01"]
    assert text.count("toolchain.os") == 1


def test_manually_is_said_once() -> None:
    """The report writes it before each fix that the deploy does not make."""
    for case in ALL:
        for each in findings_of(case)[0]:
            first = " ".join(each.fix.split()[:3])
            assert each.fixable or "manually" not in first, (case, each.fix)


if __name__ == "__main__":
    SNAPSHOT.write_text(_recorded())

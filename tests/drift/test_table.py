"""The table of problems: each finding is counted once, and a node cannot steer a terminal."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any
from unicodedata import category

import pytest
from rich.console import Console

from docs.picture import RECORDED
from gpu_node.drift.engine.finding import Finding, Root
from gpu_node.drift.report import brief, table
from gpu_node.drift.report.formats import plain, printed
from gpu_node.drift.report.json import WrittenReport
from gpu_node.drift.report.model import HostReport, Report
from gpu_node.drift.report.problems import parts, problems
from gpu_node.drift.report.seen import Seen
from gpu_node.drift.report.view import View
from tests.drift import states
from tests.drift.reports import FRESH, GONE, KINDS, THREE, concise, drawn, report

COUNT = re.compile(r" (?:deploy|manual|partly) +(\d+)$", re.MULTILINE)
HEAD = re.compile(r"(\d+|no) findings?$")
COUNTS = re.compile(r"^\d+ nodes, .*", re.MULTILINE)


def _findings(*rules: str, root: Root | None = None, **fields: Any) -> list[Finding]:
    return [
        Finding(
            **{
                **{"rule": rule, "severity": "error", "subject": "it", "found": "low"},
                **{"wanted": "high", "cause": "why", "fix": "how", "fixable": True},
                **{"step": rule.split(".")[0], "root": root, **fields},
            }
        )
        for rule in rules
    ]


def _hosts(**nodes: list[Finding]) -> dict[str, HostReport]:
    return {
        name.replace("_", "-"): HostReport(status="drift", findings=found)
        for name, found in nodes.items()
    }


def _many(count: int) -> dict[str, Seen]:
    return {f"gpu-{number:02}": states.seen(FRESH) for number in range(count)}


@pytest.mark.parametrize("width", [80, 100, 120, 160])
@pytest.mark.parametrize("nodes", [THREE, KINDS, _many(40)], ids=["three", "kinds", "forty"])
def test_each_finding_is_counted_once(nodes: dict[str, Seen], width: int) -> None:
    """The lines' numbers are those of the JSON report; no line is longer than the terminal."""
    text = concise(nodes, width)
    assert max(map(len, text.splitlines())) <= width
    total = sum(report(nodes).summary.findings.values())
    head, _, _ = text.partition("\n\n")
    match = HEAD.search(" ".join(head.split()))
    assert match and int(match[1]) == total
    assert sum(map(int, COUNT.findall(text))) == total
    assert len(COUNT.findall(text)) == len(problems(report(nodes).hosts))


@pytest.mark.parametrize("count", [2, 40, 200])
def test_the_lines_do_not_grow_with_the_nodes(count: int) -> None:
    """Nodes with the same problem are one line."""
    text = concise(_many(count), 100)
    assert len(text.splitlines()) == len(concise(_many(3), 100).splitlines())
    assert re.search(r"^error +all +shm\.too-small  /dev/shm: 64M, want 8G", text, re.MULTILINE)


def test_nodes_are_ranges() -> None:
    nodes = {**_many(3), "gpu-03": states.seen(), "gpu-04": states.seen(FRESH)}
    assert re.search(r"^error +gpu-\[00-02,04\]  shm\.too-small", concise(nodes, 160), re.MULTILINE)


def test_findings_of_one_repair_are_one_problem() -> None:
    """Named by the area where several rules have some, else by the rule."""
    (one,) = problems(_hosts(a=_findings("limits.nofile", "limits.memlock")))
    assert (one.id, len(one.all), one.repair) == ("limits", 2, "deploy")
    (one,) = problems(_hosts(a=_findings("limits.nofile"), b=_findings("limits.nofile")))
    assert (one.id, one.nodes) == ("limits.nofile", ("a", "b"))
    (one,) = problems(_hosts(a=_findings("shm.not-persistent"), b=_findings("shm.too-small")))
    assert one.id == "shm.too-small"
    (one,) = problems(_hosts(a=_findings("shm.not-persistent")))
    assert one.id == "shm.not-persistent"
    (one,) = problems(_hosts(a=_findings("nccl.package-missing", "nccl.package-mismatch")))
    assert one.id == "nccl.package-mismatch"


def test_what_a_finding_explains_is_counted_under_it() -> None:
    """Also on another node; the rules that follow are named."""
    root = Root(node="a", rule="ssh.key-missing", subject="it")
    found = problems(
        _hosts(
            a=_findings("ssh.key-missing"),
            b=_findings("ssh.not-authorised", root=root)
            + _findings("driver.smi-fails", root=root, fixable=False),
        )
    )
    (one,) = found
    assert (one.id, len(one.own), len(one.explained)) == ("ssh.key-missing", 1, 2)
    assert (one.nodes, one.repair) == (("a", "b"), "deploy")


def test_a_full_stop_is_before_no_comma() -> None:
    """What is wanted goes on with what ssh has printed."""
    found = _findings("ssh.no-login", found="Permission denied (publickey).", wanted="a login")
    (problem,) = problems(_hosts(a100_01=found))
    assert "Permission denied (publickey), want a login" in str(parts(problem, ["a100-01"]))


def test_the_rules_that_follow_are_named() -> None:
    nodes = {"n": states.seen({"driver": {"kernels": {"installed": []}}})}
    hosts = _hosts(
        n=_findings("driver.headers-missing")
        + _findings(
            "driver.not-loaded", root=Root(node="n", rule="driver.headers-missing", subject="it")
        )
    )
    text = _of(report(nodes).model_copy(update={"hosts": hosts}), 100)
    assert re.search(r"(?m)^ +leads to not-loaded *$", text)


@pytest.mark.parametrize("width", [80, 120])
def test_the_numbers_of_a_problem_add_up(width: int) -> None:
    """Findings that are shown, those that are not, and those that it leads to, are all it has."""
    root = Root(node="a", rule="shm.too-small", subject="it")
    own = [
        each
        for n in range(9)
        for each in _findings("shm.too-small", found=f"value {n}, with words")
    ]
    hosts = _hosts(
        a=[*own, *_findings("driver.smi-fails", "driver.smi-fails", root=root)],
        b=[*own, *_findings("driver.smi-fails", "shm.permissions", root=root)],
    )
    text = _of(report({"a": states.seen()}).model_copy(update={"hosts": hosts}), width)
    words = " ".join(text.split())
    shown = len(re.findall(r"value \d", words))
    assert 0 < shown < 9 and f"; {18 - 2 * shown} more (--full)" in words
    assert "leads to driver.smi-fails (3), permissions" in words
    assert COUNT.findall(text) == ["22"]


def _of(made: Report, width: int) -> str:
    return printed(table.render(View(made), width), plain(io.StringIO(), width=width))


@pytest.mark.parametrize(
    ("fixable", "repair"), [((True,), "deploy"), ((False,), "manual"), ((True, False), "partly")]
)
def test_who_repairs_it(fixable: tuple[bool, ...], repair: str) -> None:
    """What it explains is not asked."""
    found = [each for is_ in fixable for each in _findings("limits.nofile", fixable=is_)]
    root = Root(node="a", rule="limits.nofile", subject="it")
    found += _findings("limits.not-effective", root=root, fixable=False)
    (one,) = problems(_hosts(a=found))
    assert one.repair == repair


def test_of_a_part_only_that_is_to_be_repaired() -> None:
    """A dry run counts what the deploy repairs, and names the rest, with which the table begins."""
    both = [*_findings("ssh.key-missing", "ssh.not-authorised")]
    both += _findings("ssh.no-login", fixable=False, found="as another user")
    seen = states.seen(None)
    made = report({"a": seen}).model_copy(update={"hosts": _hosts(a=both)})
    console = plain(io.StringIO(), width=120)
    planned = printed(brief.plan_of_each(made), console)
    assert "a  would repair ssh (2); left to you: ssh.no-login" in planned
    (one,) = problems(made.hosts)
    assert parts(one, ["a"])[0][0].startswith("it: as another user")


@pytest.mark.parametrize(
    ("was_unread", "repaired"), [(True, {"a": "ssh.key-missing"}), (False, {})]
)
def test_what_is_gone_is_repaired(was_unread: bool, repaired: dict[str, str]) -> None:
    """But for an area of which less can be read than before."""
    seen = report({"a": states.seen(None)})
    found = _findings("ssh.key-missing")
    unread = _findings("ssh.unreadable", subject="ssh.names")
    was = found + unread * was_unread
    made, now = (seen.model_copy(update={"hosts": _hosts(a=each)}) for each in (was, unread))
    assert brief.repaired(made, now) == repaired


def test_the_worst_first() -> None:
    """By severity, then in the order of a report."""
    hosts = _hosts(
        a=_findings("shm.stale-segments", severity="warning")
        + _findings("ssh.logins-partial", severity="info")
        + _findings("nccl.differs", "shm.too-small")
    )
    assert [each.id for each in problems(hosts)] == [
        *("shm.too-small", "nccl.differs", "shm.stale-segments", "ssh.logins-partial")
    ]


def test_what_nodes_differ_in_names_each_value() -> None:
    free = {"n": states.seen(None, shm_size=None)}
    free["m"] = states.seen({"shm": {"usage": {"size": 17179869184}}}, shm_size=None)
    text = concise(free, 120)
    assert "warning  all    shm.differs  shm.size: 8G on n; 16G on m" in text


@pytest.mark.parametrize(
    ("only", "shown"),
    [
        ("shm", {"shm.too-small"}),
        ("shm.too-small", {"shm.too-small"}),
        ("shm.not-persistent", {"shm.too-small"}),
        ("v100-01", {"toolchain.unreadable"}),
        ("limits", {"limits.nofile"}),
        ("nccl", set()),
    ],
)
def test_only_some(only: str, shown: set[str]) -> None:
    """By area, rule, a rule of the same line, or node; what is left out is counted."""
    text = concise(THREE, 120, only=[only])
    found = {each.id for each in problems(report(THREE).hosts)}
    assert {each for each in found if re.search(rf"  {re.escape(each)}  ", text)} == shown
    assert f"--only leaves out {len(found) - len(shown)} problem" in text
    assert COUNTS.findall(text) == COUNTS.findall(concise(THREE, 120))


def test_a_node_alone_has_its_own_findings() -> None:
    """Of a problem of several nodes."""
    text = concise(_many(3), 120, only=["gpu-01"])
    assert re.search(r"(?m)^error +gpu-01  shm\.too-small .* deploy +2$", text)


def test_the_facts_are_shown_where_asked_for() -> None:
    """Nodes with the same facts share a column."""
    assert "toolchain.kernel" not in concise(THREE, 160)
    text = concise({**_many(3), "x": states.seen()}, 160, facts=True)
    assert text.splitlines()[0].split() == ["gpu-[00-02]", "x"]
    assert "toolchain.kernel" in text


def test_nodes_without_an_answer_are_shown() -> None:
    """A few with the reason, the others by name."""
    text = concise({"a": states.seen(), "b": GONE}, 100)
    assert text.splitlines()[1] == "2 nodes, 1 ok, 1 unreachable"
    assert "unreachable  b\n  Could not connect, Connection refused" in text
    apart = {f"n{number}": Seen(GONE.wanted, None, f"error {number}", False) for number in range(8)}
    text = concise(apart, 100)
    assert text.count("  error ") == 3
    assert "no answer from 5 more: n[3-7]; --full shows why" in text


def test_nodes_with_one_error_are_shown_once() -> None:
    """Such as two that refuse the key: the paragraph about it is not repeated."""
    text = concise({"ok": states.seen(), **{f"n{number}": GONE for number in range(8)}}, 100)
    assert text.count("Connection refused") == 1
    assert "unreachable  n[0-7]\n  Could not connect, Connection refused" in text
    text = concise({"n0": GONE, "n1": GONE, "n2": GONE}, 100, only=["n1", "n2"])
    assert "unreachable  n[1-2]\n" in text


@pytest.mark.parametrize(
    ("nodes", "line"),
    [
        ({"n": KINDS["ok"]}, "1 node, 1 ok: no problems"),
        ({"n": KINDS["ok"], "m": KINDS["ok"]}, "2 nodes, 2 ok: no problems"),
    ],
)
def test_nodes_that_are_well_are_one_line(nodes: dict[str, Seen], line: str) -> None:
    """Between what was found and whether a job can start: see test_outline.py, test_start.py."""
    assert concise(nodes, 80).splitlines()[1:-1] == [line]


NO_GPU = {"driver": {"smi": {"code": None, "gpus": []}, "devices": []}}


@pytest.mark.parametrize("form", [concise, drawn])
@pytest.mark.parametrize(
    ("nodes", "ending"),
    [
        ({"n": NO_GPU}, " in what was judged; no GPU was found"),
        ({"a-1": NO_GPU, "a-2": NO_GPU}, " in what was judged; no GPU was found"),
        ({"a-1": NO_GPU, "a-2": {}}, " in what was judged; no GPU was found on a-1"),
        ({"n": {}}, ""),
    ],
)
def test_nodes_without_a_gpu_are_no_success(
    nodes: dict[str, Any], ending: str, form: Callable[[dict[str, Seen], int], str]
) -> None:
    """The counts do not say more than was judged; the exit code stays."""
    off = {"driver": False, "host": False}
    seen = {
        name: Seen(states.wanted({"checks": off}), states.state(each))
        for name, each in nodes.items()
    }
    last = form(seen, 160).splitlines()[-2]
    assert last.endswith(f"ok: no problems{ending}" if form is concise else f"none{ending}")
    assert report(seen).exit_code() == 0


@pytest.mark.parametrize("width", [5, 20, 40, 56])
def test_a_narrow_console(width: int) -> None:
    """What has no column beside the others stands below them."""
    text = concise(THREE, width)
    lines = text.splitlines()
    lines.remove("repair: gpu-node deploy inventories/lab.py")  # it can be copied
    assert max(map(len, lines)) <= width
    whole = "".join(text.split())
    assert all(each.id in whole for each in problems(report(THREE).hosts))


EVIL = "\x1b]0;owned\x07\x1b[2J\r\x9b1m\u202e[bold]x\u2028" + "y" * 100_000


@pytest.mark.parametrize("width", [20, 80, 300])
def test_a_node_cannot_steer_a_terminal_or_fill_it(width: int) -> None:
    """No control byte, no long line, the same number of problems."""
    name = "n" * 300
    strange = {
        "shm": {"usage": {"size": 67108864}, "fstab": [
            {"line": 1, "fstype": f"nfs{EVIL}", "options": "", "size": EVIL}]},
    }  # fmt: skip
    nodes = {name: states.seen(strange), "b": Seen(states.wanted(), error=EVIL, reached=False)}
    made = report(nodes)
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system="standard")
    console.print(table.render(View(made), width, facts=True))
    assert isinstance(console.file, io.StringIO)
    text = re.sub(r"\x1b\[[0-9;]*m", "", console.file.getvalue())
    hidden = ("Cc", "Cf", "Cs", "Zl", "Zp")
    assert [char for char in text if category(char) in hidden and char != "\n"] == []
    assert max(map(len, text.splitlines())) <= max(width, 20)
    assert [each.id for each in problems(made.hosts)] == [
        each.id for each in problems(report({"n": states.seen(strange)}).hosts)
    ]


@pytest.mark.parametrize("width", [80, 160])
@pytest.mark.parametrize("prefix", ["n", "a100-", "gpu-node-a100-"])
def test_a_list_of_nodes_is_broken_at_its_commas(prefix: str, width: int) -> None:
    """A number that is broken is the number of another node."""
    numbers = range(55000, 55600)
    fresh, healthy = states.seen(FRESH), states.seen()
    nodes = {
        f"{prefix}{each}": GONE if each % 3 else fresh if each % 7 else healthy for each in numbers
    }
    text = concise(nodes, width)
    assert max(map(len, text.splitlines())) <= width
    table, _, gone = text.partition("\n\n")[2].partition("\n\n")
    room = table.index("problem")
    rows = [line for line in table.splitlines() if not re.match(r"  \S", line)]
    last = text[text.index("A job can start") :].partition("stopped by")[2]
    column = "\n".join(line[:room] for line in rows)
    listed = f"{column}\n{gone.partition('  Could')[0]}\n{last}"
    found = re.findall(r"\d+", listed.replace("a100", ""))
    assert len(found) > 200 and {*map(len, found)} == {5}


def _one(found: str, wanted: str, rule: str = "shm.too-small", **fields: Any) -> Report:
    """A report of one finding."""
    hosts = _hosts(n=_findings(rule, found=found, wanted=wanted, **fields))
    return report({"n": states.seen()}).model_copy(update={"hosts": hosts})


FOUND = "a value of some words that takes a line and a half of eighty columns"
WANTED = "another value, with its own words"


@pytest.mark.parametrize("width", [80, 100])
def test_found_and_wanted_are_whole(width: int) -> None:
    """On at most three lines; more findings of the same problem may be cut."""
    made = _one(FOUND, WANTED)
    words = " ".join(_of(made, width).split())
    assert FOUND in words.replace(" deploy 1", "") and f"want {WANTED}" in words
    more = _findings("shm.too-small", found="x" * 200, wanted="y")
    hosts = {"n": HostReport(status="drift", findings=[*made.hosts["n"].findings, *more])}
    words = " ".join(_of(made.model_copy(update={"hosts": hosts}), width).split())
    assert f"want {WANTED}; 1 more (--full)" in words


def test_what_is_wanted_is_not_what_is_cut() -> None:
    """Where both have no room: the end of what was found has none."""
    text = _of(_one("a long value " * 40, WANTED), 80)
    words = " ".join(text.split())
    assert f", want {WANTED} ... (--full)" in words
    lines = [line for line in text.splitlines() if "value" in line or "--full)" in line]
    assert len(lines) == 3


@pytest.mark.parametrize("width", range(60, 121))
def test_no_word_is_cut(width: int) -> None:
    """Half an address, or half a number with its unit, is another one."""
    found = "no interface has 192.0.2.101, 192.0.2.102 and 192.0.2.103, no route shows 192.0.2.104"
    for times in (1, 3):
        more = _findings("shm.too-small", found=found, wanted="192.0.2.106")
        made = _one(" ".join([found] * times), "192.0.2.105")
        hosts = {"n": HostReport(status="drift", findings=[*made.hosts["n"].findings, *more])}
        text = _of(made.model_copy(update={"hosts": hosts}), width)
        assert "192.0.2.105" in text and "(--full)" in text
        assert {len(each) for each in re.findall(r"1[\d.]+\d", text)} == {len("192.0.2.101")}


def test_an_empty_choice_is_said() -> None:
    """`--only shm` without a problem there: the counts are those of all."""
    text = concise({"n": KINDS["ok"]}, 80, only=["shm"])
    assert "no problems in shm" in text
    assert "no problems in nccl" in concise(THREE, 80, only=["nccl"])
    assert "no problems in" not in concise(THREE, 80, only=["shm"])


@pytest.mark.parametrize("node", ["shm", "gone", "n"])
def test_a_node_that_was_not_read_is_no_node_without_problems(node: str) -> None:
    """`--only shm` shows why; a choice of nodes shows the errors of these."""
    text = concise({"n": KINDS["ok"], "gone": GONE}, 80, only=[node])
    assert ("unreachable  gone" in text) == (node != "n")
    last = {"shm": "no problems in shm on the nodes that were read", "gone": "", "n": "in n\n"}
    assert last[node] in text and ("no problems in gone" not in text)


def test_the_words_of_the_column_are_explained() -> None:
    """Those that occur."""
    assert "manual: you do, as --full shows" in _of(_one("a", "b", fixable=False), 100)
    text = _of(_one("a", "b"), 100)
    assert "manual:" not in text and "repair: gpu-node deploy " in text


@pytest.mark.parametrize("width", [80, 100, 120])
def test_the_report_of_the_demo_names_its_values(width: int) -> None:
    """No finding ends in the middle: those without room are counted, and --full shows them."""
    text = _of(WrittenReport.model_validate_json(RECORDED.read_text("utf-8")), width)
    words = " ".join(text.split())
    assert "want ..." not in words and len(text.splitlines()) <= 45
    for each in ("2.14.3", "2.18.1", "2.14.3-1+cuda11.7", "2.18.1-1+cuda12.1", "=bond0", "16384"):
        assert each in words
    assert re.search(r"\d more \(--full\)", words)
    assert max(len(line.rstrip()) for line in text.splitlines()) <= width


def test_a_name_of_an_anonymous_report_is_whole_at_80_columns() -> None:
    """Beside problems as well: it is the shortest of such names."""
    name = "name-eeaecc373c"
    lines = concise({name: states.seen(FRESH), "b": states.seen()}, 80).splitlines()
    assert any(f" {name}  " in line for line in lines), lines

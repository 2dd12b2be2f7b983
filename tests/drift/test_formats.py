"""The formats of a report: each has its module, and a reader of it reads what it writes."""

from __future__ import annotations

import base64
import hashlib
import io
import re
from html import unescape
from pathlib import Path
from typing import Any

import junitparser
import pytest
from rich.console import Console

from gpu_node.cli.reporting import write
from gpu_node.drift.report.formats import FOR_ALL, FORMATS, SUFFIXES, Page, format_of, parts
from gpu_node.drift.report.model import Report
from gpu_node.drift.report.problems import problems
from gpu_node.drift.report.seen import Seen
from gpu_node.drift.report.view import View
from gpu_node.facts.shm import segments
from gpu_node.inventories.escape import visible
from tests.drift import reports, states
from tests.drift.format_readers import READERS
from tests.drift.test_hostile_words import HOSTILE
from tests.facts.test_redaction import HIDDEN_LINES, assert_no_secret

# What one of the formats, or a page that shows it, would take for its own.
MARKUP = (
    "\" ' \\ </code></pre></script></style><script>alert(1)</script>"
    "<img src=http://a.example/x onerror=x>"
    "<!-- ]]> --> ``` ` ~~~ **b** [a](http://a.example) ![a](http://a.example/x.png) @all #1 :tada:"
    " www.a.example | a | b | {{ 7 * 7 }} {% raw %} &lt; &#x3c; \\n \ufffe\uffff\n\n# Title"
    "\n- **error** `a` on `b`\n</details>\ngpu_node_problems{} 9 "
)
# As a report shows it.
SHOWN = r"[red]x[/red][/]:warning:\x1b]0;owned\x07\x9b2J\u202e\u200b\r\n\udcff"
WORDS = ("subject", "found", "wanted", "cause", "fix")
WIDE = 40_000
# Those that write characters as references: an escape of their text is no escape of what it means.
REFERENCES = ("junit", "html")


def written(form: str, report: Report, width: int = WIDE) -> str:
    return reports.written(form, report, width)


def hostile(value: Any, words: str) -> Any:
    """Put the hostile words behind every text."""
    if isinstance(value, str):
        return f"{value}{words}"
    if isinstance(value, dict):
        return {each: hostile(inner, words) for each, inner in value.items()}
    return [hostile(each, words) for each in value] if isinstance(value, list) else value


def worst(report: Report, words: str) -> Report:
    """Return a report whose findings, values and errors end in the hostile words."""
    data = report.model_dump(mode="json", by_alias=True)
    for host in data["hosts"].values():
        for finding in host["findings"]:
            finding.update({key: hostile(finding[key], words) for key in WORDS})
    for difference in data["differences"]:
        difference["fact"] += words
        difference["values"] = hostile(difference["values"], words)
    return Report.model_validate(data)


def odd(report: Report, words: str) -> Report:
    """Return a report in which texts, an error, a fact and names of nodes end in such words."""
    data = worst(report, words).model_dump(mode="json", by_alias=True)
    data["inventory"] += words
    for host in data["hosts"].values():
        host["error"] = host["error"] and host["error"] + words
        if host["facts"]:
            host["facts"]["toolchain"]["os"] = words.replace("\udcff", "")
    data["hosts"] = {f"{name}{words}": host for name, host in data["hosts"].items()}
    return Report.model_validate(data)


@pytest.mark.parametrize("form", FORMATS)
def test_a_format_writes_text(form: str) -> None:
    """It names each node and ends with a newline."""
    fresh, hangs = states.seen(reports.FRESH), states.seen(reports.HANGS)
    report = reports.report({"a100-01": fresh, "v100-01": hangs})
    text = written(form, report, width=100)
    assert "a100-01" in text and "v100-01" in text
    assert text.endswith("\n")


def test_a_format_on_a_terminal_is_styled() -> None:
    """The table alone; a file has plain lines."""
    report = reports.report({"a100-01": states.seen()})
    terminal = Console(file=io.StringIO(), width=100, force_terminal=True, color_system="256")
    for form in FORMATS:
        assert ("\x1b[" in "".join(parts(form, View(report), Page(terminal)))) is (form == "table")
        assert "\x1b[" not in written(form, report)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("words", [HOSTILE, MARKUP], ids=["controls", "markup"])
def test_no_word_of_a_node_is_markup(form: str, words: str) -> None:
    """A reader finds as many problems as without it; no character steers or hides."""
    report = reports.report(reports.KINDS)
    plain = Report.model_validate(report.model_dump(mode="json", by_alias=True))
    text = written(form, odd(report, words))
    decoded = unescape(text) if form in REFERENCES else text
    assert all(visible(line, WIDE) == line for line in decoded.split("\n"))
    text.encode("utf-8")
    assert form != "table" or words != HOSTILE or SHOWN in text
    assert READERS[form](text) == READERS[form](written(form, plain)) > 0


@pytest.mark.parametrize("form", ["table", "markdown", "prometheus", "html"])
def test_a_reader_finds_each_problem(form: str) -> None:
    """Those of `problems`; in the others it finds the findings they are made of."""
    report = reports.report(reports.THREE)
    assert READERS[form](written(form, report)) == len(problems(report.hosts))


@pytest.mark.parametrize("form", ["junit", "prometheus", "html"])
def test_a_stream_of_any_encoding_takes_it(form: str) -> None:
    """They are ASCII, so that what they say of their encoding is true of every stream."""
    words = {"toolchain": {"os": "Größe 日本"}}
    report = reports.report({"n": states.seen({**words, **reports.FRESH})})
    assert written(form, report).isascii()


def test_the_cases_of_junit_are_the_rules_that_judged_a_node() -> None:
    """One that needs a key or several nodes is none; one that found nothing has passed."""
    wanted = {"checks": {"limits.nofile": False}}
    alone = reports.report({"n": states.seen(reports.FRESH, **wanted)})
    text = written("junit", alone)
    assert 'name="answer" />' in text and 'name="driver.not-loaded" />' in text
    assert re.search('"shm.too-small">\n +<failure type="error" message="/dev/shm: 64M">', text)
    assert 'type="warning"' in text
    assert re.search('"limits.nofile">\n +<skipped message="limits.nofile .false.', text)
    for absent in ("shm.differs", "host.memory-for-twin", "job.batch"):
        assert f'name="{absent}"' not in text
    login = written("junit", reports.report({"n": states.seen(gpu_model="none")}))
    assert re.search('"driver.not-loaded">\n +<skipped message="gpu: none', login)
    gone = written("junit", reports.report(reports.THREE))
    assert re.search('name="answer">\n +<error type="unreachable" message="Could not', gone)
    assert re.search('name="toolchain.unreadable">\n +<error type="error"', gone)


EXITS = {
    "ok": ({"a": states.seen(), "b": states.seen()}, 0),
    "drift": ({"a": states.seen(reports.FRESH)}, 2),
    "unread": ({"a": states.seen(reports.HANGS), "b": states.seen(reports.FRESH)}, 1),
    "gone": ({"a": reports.GONE, "b": states.seen(reports.FRESH)}, 1),
    "unknown": (dict.fromkeys("ab", reports.UNKNOWN), 1),
}


@pytest.mark.parametrize(("nodes", "code"), EXITS.values(), ids=EXITS)
def test_errors_of_junit_are_the_exit_status_1(nodes: dict[str, Seen], code: int) -> None:
    """What could not be found out is an error, what is wrong a failure."""
    report = reports.report(nodes)
    whole = junitparser.JUnitXml.fromstring(written("junit", report).encode())
    assert report.exit_code() == code
    assert (whole.errors > 0) is (code == 1)
    assert (whole.failures > 0) is any(
        each.findings and each.status == "drift" for each in report.hosts.values()
    )
    assert READERS["junit"](written("junit", report)) == whole.errors + whole.failures


@pytest.mark.parametrize("form", ["table", "markdown", "html", "junit"])
def test_why_a_report_ends_with_1(form: str) -> None:
    """Where no node and no area says so."""
    why = "exit status 1: not known on all nodes, so not compared: nccl.torch"
    known = reports.report({"a": states.seen(reports.FRESH)})
    assert why in written(form, reports.report(dict.fromkeys("ab", reports.UNKNOWN)))
    assert "exit status 1" not in written(form, known)


def test_a_page_is_small() -> None:
    """198 nodes alike and 2 others: what nodes share is in it once."""
    alike = {f"gpu-{number:03}": states.seen(reports.FRESH) for number in range(198)}
    others = {"v100-01": states.seen(reports.HANGS), "v100-02": reports.GONE}
    text = written("html", reports.report({**alike, **others}))
    assert len(text) < 200_000
    assert text.count("gpu-[000-197]") > 10


def test_a_page_allows_its_own_script_and_style_alone() -> None:
    """By their hashes, as a browser makes them of the text between the tags."""
    text = written("html", reports.report(reports.THREE))
    (policy,) = re.findall('Content-Security-Policy" content="([^"]*)"', text)
    for tag in ("style", "script"):
        (inner,) = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';") and "unsafe" not in policy
    assert not re.search(r"https?:|\bsrc=|href=.(?!#rule-)|url\(|@import|style=", text)


@pytest.mark.parametrize(
    ("output", "form"),
    [
        *((f"a/report{suffix}", form) for suffix, form in SUFFIXES.items()),
        *(("REPORT.HTML", "html"), ("report", "table"), ("report.pdf", None), ("a.2026", None)),
        *((".md", "table"), ("a.html/report", "table"), (None, "table"), ("-", "table")),
    ],
)
def test_the_suffix_chooses(output: str | None, form: str | None) -> None:
    assert format_of(output) == form


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_is_for_its_owner(form: str, tmp_path: Path) -> None:
    """Metrics are for the program that collects them, too: they have no value of a node."""
    file = tmp_path / "report"
    write(View(reports.report(reports.THREE)), form, str(file))
    assert file.stat().st_mode & 0o777 == (0o644 if form in FOR_ALL else 0o600)
    assert READERS[form](file.read_text("utf-8")) > 0


@pytest.mark.parametrize("form", FORMATS)
def test_no_format_shows_a_secret(form: str) -> None:
    """What a process's command line has, as the controller reads it."""
    head = "clock 1795281650 48000.5\nseen\nadopted 4041 4520179 0 4 2 1 systemd\n"
    for line, shown in HIDDEN_LINES:
        words = line.replace("\n", " ")
        text = f"{head}launched 4041 LOCAL_RANK RANK\ncommand 4041 train python train.py {words}\n"
        use = segments.parse(text).model_dump(mode="json")
        report = reports.report({"a100-01": states.seen({"shm": {"use": use}})})
        page = written(form, report)
        assert_no_secret(page)
        assert form == "prometheus" or shown[:10] in unescape(re.sub("</?bdi>", "", page))

"""The words, streams and exit codes of the commands: one test a case of cases/COMMAND.yml.

A case: `run` is the command line; before it `files` are written, `make` is run by sh in their
folder, and `replace` edits site.yml; `code` is the exit code, and `out` and `err` are what each
stream must hold; `lacks` is what neither may. A stream that a case does not name is empty. `$dir`
is the folder of the files.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from paramiko import ECDSAKey

from gpu_node.cli.main import main
from tests import case_files
from tests.case_files import Case
from tests.cli.conftest import fill
from tests.cli.form import assert_in_form
from tests.commands import REPOSITORY, Ended, run

CASES = case_files.cases(Path(__file__).parent / "cases")
# The words alone are refused: one of each command is a process, the others are called here.
_REFUSED = [case for case in CASES if "--help" in "".join(case.data.get("err", ()))]
_FIRST = {case.subject: str(case) for case in reversed(_REFUSED)}
CALLED = [case for case in _REFUSED if str(case) not in _FIRST.values()]
RUN = [case for case in CASES if case not in CALLED]
# Of a fork, whose imports are made: a start takes less than a second more.
LONGEST, MOST_MEGABYTES = 3, 300
SCHEMA = REPOSITORY / "drift" / "report" / "report.schema.json"


def filled(value: Any, folder: Path) -> Any:
    """A case, with the folder's name in place of $dir."""
    if isinstance(value, Mapping):
        return {filled(key, folder): filled(each, folder) for key, each in value.items()}
    if isinstance(value, list):
        return [filled(each, folder) for each in value]
    return value.replace("$dir", str(folder)) if isinstance(value, str) else value


def prepare(case: dict[str, Any], folder: Path) -> None:
    """Write the case's files beside the inventory."""
    for name, text in case.get("files", {}).items():
        (folder / name).write_text(text)
    if script := case.get("make"):
        subprocess.run(["sh", "-eu", "-c", script], cwd=folder, check=True)
    cluster = folder / "site.yml"
    for old, new in case.get("replace", {}).items():
        assert old in cluster.read_text()
        cluster.write_text(cluster.read_text().replace(old, new))


Lines = dict[str, Future[tuple[dict[str, Any], Ended]]]


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory, key: ECDSAKey) -> Iterator[Lines]:
    """Every case's command line, run beside the others: most of their time is Python's start."""

    def one(named: Case, folder: Path) -> tuple[dict[str, Any], Ended]:
        fill(folder, key)
        case = filled(named.data, folder)
        prepare(case, folder)
        return case, run(*case["run"])

    pool = ThreadPoolExecutor(max_workers=4)
    yield {str(case): pool.submit(one, case, tmp_path_factory.mktemp("case")) for case in RUN}
    pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("name", [str(case) for case in RUN])
def test_a_command_line(name: str, lines: Lines) -> None:
    """It ends with the code of the contract and says what it should, where it should."""
    case, done = lines[name].result()
    assert_ended(case, done)
    assert done.seconds < LONGEST and done.megabytes < MOST_MEGABYTES, done


@pytest.mark.parametrize("named", CALLED, ids=str)
def test_words_that_are_refused(
    named: Case, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    case = filled(named.data, folder)
    prepare(case, folder)
    monkeypatch.setattr(sys, "argv", case["run"])
    monkeypatch.chdir(REPOSITORY)
    with pytest.raises(SystemExit) as ended:
        main()
    output = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    assert_ended(case, Ended(ended.value.code, output.out, output.err))


def assert_ended(case: dict[str, Any], done: Ended) -> None:
    """Its code, its streams and its errors are those of the case."""
    assert done.code == case["code"], done
    for stream, text in (("out", done.out), ("err", done.err)):
        assert all(words in text for words in case.get(stream, [])), text
        assert stream in case or text == ""
        assert not any(words in text for words in case.get("lacks", [])), text
    assert_plain(done)
    if case["code"] and case["run"][0] == "gpu-node":
        assert_in_form(done.err)


def assert_plain(done: Ended) -> None:
    """A pipe gets lines of text: no traceback, no colour, no cursor, no progress bar."""
    for text in (done.out, done.err):
        assert "Traceback" not in text
        assert not set("\x1b\r\b\x07") & set(text)


def report(folder: Path, *words: str) -> tuple[Ended, dict[str, Any]]:
    """Run a report as JSON on the node that is not there."""
    done = run("gpu-node", "drift", str(folder / "site.py"), "--format", "json", *words)
    assert_plain(done)
    return done, json.loads(done.out) if done.out else {}


def test_an_unreachable_node_in_json(folder: Path) -> None:
    """The report is whole, keeps the schema, and is all there is on stdout; stderr is empty."""
    done, found = report(folder)
    jsonschema.validate(found, json.loads(SCHEMA.read_text()))
    assert (done.code, done.err) == (1, "")
    host = found["hosts"]["a100-01"]
    assert (host["status"], host["facts"], host["findings"]) == ("unreachable", {}, [])
    assert "port 1 on 127.0.0.1" in host["error"]
    assert found["summary"]["unreachable"] == found["summary"]["hosts"] == 1


@pytest.mark.parametrize("limit", ["a100", "a100-01", "a*"])
def test_a_limit_that_selects(folder: Path, limit: str) -> None:
    """Groups, names and patterns are taken as pyinfra takes them."""
    done, found = report(folder, "--limit", limit)
    assert (done.code, list(found["hosts"])) == (1, ["a100-01"])


def test_a_report_into_a_file(folder: Path) -> None:
    """-o writes the whole report over what was there; a command of cron prints nothing."""
    target = folder / "report.json"
    target.write_text("old " * 10_000)
    before = set(os.listdir(folder))
    done, _ = report(folder, "-o", str(target))
    assert (done.code, done.out, done.err) == (1, "", "")
    jsonschema.validate(json.loads(target.read_text()), json.loads(SCHEMA.read_text()))
    assert set(os.listdir(folder)) == before


def test_a_table_into_a_file(folder: Path) -> None:
    """A table goes to a file, too, and holds no terminal codes."""
    target = folder / "report.txt"
    done = run("gpu-node", "drift", str(folder / "site.py"), "-o", str(target))
    text = target.read_text()
    assert (done.code, done.out, done.err) == (1, "", "")
    assert "a100-01" in text and "unreachable" in text
    assert_plain(Ended(0, text, ""))

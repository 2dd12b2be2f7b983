"""A report goes into a stream of any encoding: what that cannot take is written otherwise."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from rich.console import Console

from gpu_node.cli.streams import take_every_character
from tests import fork_server
from tests.cli.answering import SYSTEM
from tests.commands import REPOSITORY, SECONDS, environment

ASCII = {"PYTHONIOENCODING": "ascii"}
LATIN = {"PYTHONIOENCODING": "latin-1"}
# As on a machine without locales, where Python does not help itself to UTF-8.
PLAIN_C = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
UTF8 = {"PYTHONIOENCODING": "utf-8"}
JSON = ["--format", "json"]
FACTS = ["--facts"]
Done = subprocess.CompletedProcess[bytes]


def drift(inventory: str, variables: dict[str, str], *words: str) -> Done:
    """Run a report on a node that answers, under some variables of the environment."""
    if variables.keys() == {fork_server.ENCODING}:
        return fork_server.run_bytes(
            fork_server.ANSWERING,
            *("drift", inventory, *words),
            cwd=REPOSITORY,
            env={**environment(), **variables},
            seconds=SECONDS,
        )
    return subprocess.run(
        [sys.executable, "-m", "tests.cli.answering", "drift", inventory, *words],
        cwd=REPOSITORY,
        env={**environment(), **variables},
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )


CASES = {
    "table utf-8": (UTF8, FACTS, "64M ✗", SYSTEM),
    "table latin-1": (LATIN, FACTS, "64M x", r"Größe \u65e5\u672c"),
    "table ascii": (ASCII, FACTS, "64M x", r"Gr\xf6\xdfe \u65e5\u672c"),
    "table C": (PLAIN_C, FACTS, "64M x", r"Gr\xf6\xdfe \u65e5\u672c"),
    "json utf-8": (UTF8, JSON, f'"os": "{SYSTEM}"', f'"os": "{SYSTEM}"'),
    "json latin-1": (LATIN, JSON, '"drift"', r'"os": "Gr\u00f6\u00dfe \u65e5\u672c"'),
    "json C": (PLAIN_C, JSON, '"drift"', r'"os": "Gr\u00f6\u00dfe \u65e5\u672c"'),
}


@pytest.fixture(scope="module")
def reports() -> dict[str, Future[Done]]:
    """Every report, made beside the others."""
    with ThreadPoolExecutor(max_workers=4) as pool:
        return {
            name: pool.submit(drift, "inventories/lab.py", variables, *words)
            for name, (variables, words, _mark, _system) in CASES.items()
        }


@pytest.mark.parametrize("name", CASES)
def test_a_report_in_any_encoding(name: str, reports: dict[str, Future[Done]]) -> None:
    """It is whole, its exit code is that of the contract, and stderr is empty."""
    variables, words, *shown = CASES[name]
    done = reports[name].result()
    assert (done.returncode, done.stderr) == (2, b"")
    text = done.stdout.decode(variables.get("PYTHONIOENCODING", "ascii"))
    assert all(each in text for each in shown), text
    if words == JSON:
        found = json.loads(text)["hosts"]["a100-01"]
        assert found["facts"]["toolchain"]["os"] == SYSTEM


def test_a_file_is_utf_8_whatever_stdout_takes(tmp_path: Path) -> None:
    """-o does not ask the terminal."""
    target = tmp_path / "report.txt"
    assert drift("inventories/lab.py", ASCII, *FACTS, "-o", str(target)).returncode == 2
    assert f"toolchain.os          {SYSTEM}\n" in target.read_text(encoding="utf-8")


@pytest.mark.parametrize("words", [[], JSON], ids=["table", "json"])
def test_a_name_that_is_no_text(tmp_path: Path, words: list[str]) -> None:
    """A folder may be called what no encoding knows; the report shows it all the same."""
    inventory = os.fsdecode(os.fsencode(tmp_path) + b"/nodes\xff.py")
    Path(inventory).touch()
    done = drift(inventory, UTF8, *words)
    assert (done.returncode, done.stderr) == (2, b"")
    # In JSON as text, too: half a surrogate pair is no character.
    shown = rb"nodes\\udcff.py" if words else rb"nodes\udcff.py"
    assert shown in b"".join(done.stdout.split())


@pytest.mark.parametrize("variables", [ASCII, PLAIN_C], ids=["ascii", "C"])
def test_an_error_in_any_encoding(variables: dict[str, str]) -> None:
    """A mistake is one line, with what can be written of the name."""
    done = drift("größe.py", variables)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"INVENTORY: found 'gr" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("encoding", "written"),
    [
        ("utf-8", "64M ✗ é 日".encode()),
        ("latin-1", rb"64M x " + b"\xe9" + rb" \u65e5"),
        ("ascii", rb"64M x \xe9 \u65e5"),
    ],
)
def test_what_a_terminal_gets(encoding: str, written: bytes) -> None:
    """rich writes to it directly."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    take_every_character(stream)
    Console(file=stream, force_terminal=True, color_system=None).print("64M ✗ é 日")
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    assert stream.buffer.getvalue() == written + b"\n"


def test_a_stream_that_encodes_nothing() -> None:
    """What only collects text, as a test does, is left as it is."""
    stream = io.StringIO()
    take_every_character(stream)
    stream.write("✗")
    assert stream.getvalue() == "✗"

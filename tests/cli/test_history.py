"""`gpu-node drift` keeps its reports, `--since` compares with them, `history` lists the changes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gpu_node.cli.keeping import keep_run
from gpu_node.cli.main import main
from gpu_node.facts.ask.gather import Answer
from gpu_node.history.listing import as_text
from gpu_node.history.store import Event, identity, opened
from tests.cli.answering import gathered
from tests.commands import REPOSITORY
from tests.drift import states
from tests.history.kept import FIRST

Run = Callable[..., tuple[object, str, str]]
SMALL = {"shm": {"usage": {"size": 67108864}}}
SCHEMA = json.loads((REPOSITORY / "drift" / "report" / "report.schema.json").read_text())


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command on a node with a change of the healthy one: exit code, stdout and stderr."""
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    monkeypatch.setenv("COLUMNS", "120")

    def ran(command: str, *words: str, change: dict[str, Any] | None = None) -> Any:
        answer = Answer(states.BASE["wanted"], states.state(change), reached=True)
        monkeypatch.setattr("gpu_node.cli.asking.gather", gathered(answer))
        inventory = folder if command == "init" else folder / "site.yml"
        given = ["gpu-node", command, str(inventory), *words]
        monkeypatch.setattr(sys, "argv", given)
        with pytest.raises(SystemExit) as ended:
            main()
        output = capsys.readouterr()
        return ended.value.code, output.out, output.err

    return ran


def test_since_the_last_report(run: Run) -> None:
    """Old drift ends with 0, new drift is marked and ends with 2, what is gone is listed.

    On the first day there is nothing to compare with: it ends as without the option.
    """
    code, out, err = run("drift", "--since", "last", change=SMALL)
    assert code == 2 and "no earlier report to compare with (--since last)" in out
    assert "found no report is kept yet; nothing is compared, so all drift counts; next: " in err
    code, out, err = run("drift", "--since", "last", change=SMALL)
    assert (code, err) == (0, "") and "0 new, 0 gone, 0 not judged now, 0 facts changed" in out
    assert "new  shm.too-small" not in out and "shm.too-small" in out
    code, out, err = run("drift", "--since", "last")
    assert (code, err) == (0, "") and "gone  a100-01  shm.too-small  /dev/shm: 64M" in out
    assert "fact  a100-01  shm.size  64M -> 8G since " in out
    for words, mark in ((), "new  shm.too-small"), (("--full",), "a100-01  new"):
        code, out, err = run("drift", "--since", "last", "--no-history", *words, change=SMALL)
        assert (code, err) == (2, "") and mark in out


def test_the_first_report_is_that_of_init(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """What changed since then is listed, and is what --since compares with."""
    monkeypatch.setattr("gpu_node.onboarding.initialising.ask_each", lambda *_: {})
    assert "shm.too-small" in run("init", "--again", change=SMALL)[1]
    code, out, _ = run("drift", "--since", "last")
    assert code == 0 and "gone  a100-01  shm.too-small  /dev/shm: 64M" in out
    code, out, _ = run("history")
    assert code == 0 and "2 reports" in out


def test_what_is_not_kept(run: Run, folder: Path) -> None:
    """With --no-history, and answers that are no SSH session's, there is no file."""
    (folder / "answers").mkdir()
    run("drift", "--no-history")
    run("drift", "--answers", str(folder / "answers"))
    assert not (folder / "state").exists()
    assert run("history")[0] == 1


def test_a_part_of_a_report_is_kept_whole(run: Run) -> None:
    """--only changes what is shown: nothing else is gone."""
    run("drift", change=SMALL)
    run("drift", "--only", "nccl", change=SMALL)
    assert run("history")[1].count("shm.too-small") == 0
    assert "gone" in run("drift", "--since", "last")[1]


def test_since_a_file(run: Run, folder: Path) -> None:
    """A report as JSON is compared, whatever is kept; the JSON of both has the schema."""
    file = folder / "old.json"
    run("drift", "--format", "json", "-o", str(file), "--no-history", change=SMALL)
    old = json.loads(file.read_text())
    assert "changes" not in old
    code, out, err = run("drift", "--since", str(file), "--format", "json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    for each in (old, found):
        jsonschema.validate(each, SCHEMA)
    changes = found["changes"]
    assert changes["earlier"] == old["generated"]
    assert [each["rule"] for each in changes["gone"]] == ["shm.too-small"]
    assert changes["facts"][0]["since"] is None and changes["new"] == []
    file.write_text(out)  # a report with changes is one, too
    assert run("drift", "--since", str(file))[0] == 0


def test_the_list_of_changes(run: Run, folder: Path) -> None:
    """As text and as JSON, of one node, and since a time."""
    run("drift")
    run("drift", change=SMALL)
    code, out, err = run("history")
    assert (code, err) == (0, "")
    assert "fact     a100-01  shm.size  8G -> 64M" in out
    assert "new      a100-01  shm.too-small  error  /dev/shm: 64M" in out
    assert "2 reports of 1 node kept" in out
    site = str(folder / "site.yml")
    assert out.endswith(f"runs of plain pyinfra: gpu-node restore {site} NODE --list\n")
    of_node = run("history", "--node", "a100-01")[1]
    assert of_node.endswith(f"runs of plain pyinfra: gpu-node restore {site} a100-01 --list\n")
    found = json.loads(run("history", "--format", "json", "--since", "1h")[1])
    assert (found["schema"], found["reports"]) == (1, 2)
    assert [each["kind"] for each in found["changes"]] == ["first", "fact", "new"]
    assert run("history", "--since", "1h", "--node", "a100-01")[0] == 0
    code, out, err = run("drift", "--since", "7d", "--no-history")
    assert code == 0 and "at that time or before: the first is of" in err
    code, out, err = run("history", "--node", "a100-1")
    assert (code, out) == (1, "") and "did you mean a100-01?" in err


def test_a_damaged_store_breaks_no_report(run: Run, folder: Path) -> None:
    """One line on stderr, and the report as it is; `history` ends with 1."""
    store = folder / "state" / "gpu-node" / "history.db"
    store.parent.mkdir(parents=True)
    store.write_text("no database" * 1000)
    code, out, err = run("drift", change=SMALL)
    assert code == 2 and "shm.too-small" in out
    assert err.count("\n") == 1 and err.startswith(f"gpu-node: history: found {store} is damaged")
    code, out, err = run("drift", "--no-history", change=SMALL)
    assert (code, err) == (2, "")
    code, out, err = run("drift", "--since", "7d", "--no-history")
    assert code == 1 and "no earlier report to compare with" in out and err.count("\n") == 1
    assert run("history")[:2] == (1, "")


def test_hostile_values_are_shown_as_text(run: Run) -> None:
    """What a node sent is escaped, in both lists and both formats."""
    system = "CentOS\x1b[31m\u202e[red]\r"
    run("drift")
    outputs = [run("drift", "--since", "last", change={"toolchain": {"os": system}})[1]]
    outputs += [run("history")[1], run("history", "--format", "json")[1]]
    for each in outputs:
        assert "CentOS" in each and not set("\x1b\r\u202e") & {*each}


def test_a_report_without_history_imports_no_database(folder: Path) -> None:
    """Nor does one for the other commands: sqlite3 is imported where a report is kept."""
    import subprocess

    code = "import sys; import gpu_node.cli.drift, gpu_node.cli.asking, gpu_node.cli.reporting"
    words = [sys.executable, "-c", f"{code}; print('sqlite3' in sys.modules)"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=REPOSITORY, check=True)
    assert done.stdout == "False\n"


def test_what_runs_did_is_listed(run: Run, folder: Path) -> None:
    """Beside the changes of reports, and before the first report."""
    site = str(folder / "site.py")
    repaired = dict.fromkeys(("a100-01", "a100-02"), "repaired shm.too-small")
    with opened(making=True) as store:
        store.keep_run(identity(site), FIRST, "deploy", "20261122T204829Z-0a1b2c", repaired)
    code, out, err = run("history")
    assert (code, err) == (0, "")
    words = "deploy   all  20261122T204829Z-0a1b2c  repaired shm.too-small"
    assert words in out and "0 reports of 2 nodes kept; gpu-node drift keeps one" in out
    run("drift")
    keep_run(site, "restore", "20261123T204829Z-0a1b2c", {"a100-01": "1 file as before run X"})
    found = json.loads(run("history", "--format", "json", "--node", "a100-01")[1])
    assert [each["kind"] for each in found["changes"]] == ["deploy", "first", "restore"]
    assert found["changes"][2] == {
        **{key: found["changes"][2][key] for key in ("at", "node")},
        **{"kind": "restore", "run": "20261123T204829Z-0a1b2c", "done": "1 file as before run X"},
    }


def test_a_finding_about_logins_names_its_node_once() -> None:
    """And nodes with the same finding share a line."""
    login = partial(Event, FIRST, kind="new", name="ssh.no-login", now="error", words="refused")
    events = [login(node=name, subject=name) for name in ("a-1", "a-2")]
    assert [*as_text(events, ["a-1", "a-2", "b"])][1:] == [
        "  new      a-[1-2]  ssh.no-login  error  refused"
    ]

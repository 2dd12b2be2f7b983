"""How pyinfra is started: without questions, and so that a dry run lists what it would do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_node.deploy.engine import pyinfra_process
from gpu_node.deploy.engine.pyinfra_process import VARIABLE, run_pyinfra
from gpu_node.deploy.restore.records import RUN_ID
from gpu_node.inventories.connection.sudo import SUDO
from gpu_node.inventories.interrupt import Interrupted

DEPLOY = """
from pyinfra import host
from gpu_node.deploy.engine.failures import alone
from gpu_node.deploy.files import operations as files
from pyinfra.operations import server
text, area = "new\\nHF_TOKEN=hf_{secret}\\n", alone(host, "x", 9)
files.write(name="Write a file", path={path!r}, content=text, **area)
server.shell(name="Do more", commands="true", **area)
server.shell(name="Prove it", commands="true")
"""
REFUSES = """
from pyinfra.api.exceptions import PyinfraError
raise PyinfraError("no such thing")
"""
FAILS = """
from pyinfra import host
from pyinfra.operations import server
server.shell(name="Fail", commands="false", _ignore_errors=True)
host.state.fail_hosts({host.state.inventory.get_host(host.name)})
"""
KEEP = """
import os
from pathlib import Path
Path({path!r}).write_text(repr(dict(os.environ)))
"""


def test_a_dry_run_shows_the_lines_of_files(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without their secrets; it changes nothing, and pyinfra's own words about it are left out."""
    (tmp_path / "nodes.py").write_text('nodes = ["@local"]\n')
    made = tmp_path / "made"
    made.write_text("theirs\nold\n")
    (tmp_path / "work.py").write_text(DEPLOY.format(path=str(made), secret="a" * 34))
    ended = run_pyinfra(str(tmp_path / "nodes.py"), tmp_path / "work.py", ["--dry"])
    assert (ended.code, ended.failed, ended.recorded, ended.proved) == (0, [], [], {})
    assert made.read_text() == "theirs\nold\n"
    assert ended.planned == [
        "Write a file on @local:",
        f"  {made}: changes",
        *("    -theirs", "    -old", "    +new", "    +HF_TOKEN=..."),
        "Do more on @local: by a script",
    ]
    out, err = capfd.readouterr()
    assert out == "" and "Hidden side effects" not in err


def test_an_error_names_no_line_of_a_deploy(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nor does a failed operation count its commands, or a run end with an error of pyinfra."""
    (tmp_path / "nodes.py").write_text('nodes = ["@local"]\n')
    (tmp_path / "work.py").write_text(FAILS)
    ended = run_pyinfra(str(tmp_path / "nodes.py"), tmp_path / "work.py")
    err = capfd.readouterr().err
    assert ended.code == 1 and ended.failed == ["@local"] and "No hosts remaining" not in err
    (tmp_path / "work.py").write_text(REFUSES)
    assert run_pyinfra(str(tmp_path / "nodes.py"), tmp_path / "work.py").code == 1
    err = capfd.readouterr().err
    assert "pyinfra error: no such thing" in err and "work.py line" not in err
    (tmp_path / "work.py").write_text(FAILS[: FAILS.index("host.state.")])
    assert run_pyinfra(str(tmp_path / "nodes.py"), tmp_path / "work.py").code == 0
    err += capfd.readouterr().err
    assert "[@local] failed\n" in err and "executed" not in err and "work.py line" not in err


def test_an_interrupted_run_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By it `restore` takes back what the run has changed; the child writes it as it begins."""
    (tmp_path / "nodes.py").write_text('nodes = ["@local"]\n')
    end = pyinfra_process._Run.ended

    def ended(run: Any, *given: Any) -> int:
        end(run, *given)
        raise Interrupted

    monkeypatch.setattr(pyinfra_process._Run, "ended", ended)
    (tmp_path / "work.py").write_text("import os; os._exit(1)\n")
    with pytest.raises(Interrupted) as error:
        run_pyinfra(str(tmp_path / "nodes.py"), tmp_path / "work.py")
    assert RUN_ID.fullmatch(error.value.run)


GIVEN = """
import json
from pathlib import Path
from gpu_node.inventories.connection.sudo import SUDO
found = [Path(f"/proc/self/{{each}}").read_text() for each in ("environ", "cmdline")]
Path({path!r}).write_text(json.dumps(SUDO.to_child()) + "".join(found))
"""


def test_the_password_for_sudo_comes_by_a_pipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the answers of the nodes: none is asked again."""
    monkeypatch.setattr(SUDO, "_text", "hunter2")
    monkeypatch.setattr(SUDO, "_answers", {"a": "", "b": None})
    (tmp_path / "nodes.py").write_text('nodes = ["@local"]\n')
    seen = tmp_path / "seen"
    (tmp_path / "work.py").write_text(GIVEN.format(path=str(seen)))
    assert run_pyinfra(str(tmp_path / "nodes.py"), tmp_path / "work.py").code == 0
    text = seen.read_text()
    assert text.startswith('["hunter2", {"a": "", "b": null}]') and text.count("hunter2") == 1


def test_pyinfra_does_not_get_the_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: it gets other variables."""
    monkeypatch.setenv(VARIABLE, "hunter2")
    monkeypatch.setenv("OTHER", "1")
    (tmp_path / "nodes.py").write_text('nodes = ["@local"]\n')
    seen = tmp_path / "seen"
    (tmp_path / "work.py").write_text(KEEP.format(path=str(seen)))
    assert run_pyinfra(str(tmp_path / "nodes.py"), tmp_path / "work.py").code == 0
    text = seen.read_text()
    assert "'OTHER': '1'" in text and VARIABLE not in text and "hunter2" not in text

"""`gpu-node drift --deep` on this machine: a library that is wrong only by its sum."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests import environments
from tests.commands import Ended, run
from tests.environments import CU12
from tests.shells import at_an_empty_home

# A toolkit of this machine may be of another CUDA than the torch that is made here, and a process
# that another test has left alone is an orphaned trainer.
INVENTORY = """data = {{"nccl_version": "match-torch", "nccl_environments": [{prefix!r}],
        "checks": {{"toolchain": False, "shm": False}}}}
hosts = [("@local", data)]
"""


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> environments.Environment:
    """An environment, and beside it an inventory of this machine that names it."""
    monkeypatch.setenv("PATH", at_an_empty_home()["PATH"])
    made = environments.environment(tmp_path / "env", "torch", CU12)
    (tmp_path / "here.py").write_text(INVENTORY.format(prefix=str(made.prefix)))
    return made


def report(made: environments.Environment, *words: str) -> tuple[Ended, dict[str, Any]]:
    """What is found here, as JSON."""
    inventory = str(made.prefix.parent / "here.py")
    done = run("gpu-node", "drift", inventory, "--format", "json", *words)
    found: dict[str, Any] = json.loads(done.out)["hosts"]["@local"]
    return done, found


def test_a_file_of_the_same_size_and_version(made: environments.Environment) -> None:
    """It loads and says the right version, so it is found by its sum, and by nothing less."""
    whole = made.library.read_bytes()
    made.library.write_bytes(whole.replace(b"+cuda12.1", b"+cuda12.9"))
    assert made.library.read_bytes() != whole
    done, found = report(made)
    assert (done.code, found["status"], found["findings"]) == (0, "ok", [])
    done, found = report(made, "--deep")
    (finding,) = found["findings"]
    assert (done.code, finding["rule"]) == (2, "nccl.wheel-damaged")
    assert finding["found"] == "a file with another sha256 than in its RECORD"


def test_the_right_file(made: environments.Environment) -> None:
    """It is read through, its sum is that of the RECORD, and there is nothing to say."""
    done, found = report(made, "--deep")
    environment = found["facts"]["nccl"]["environments"][str(made.prefix)]
    assert (done.code, found["findings"]) == (0, [])
    assert environment["file"]["sha256"]
    assert environment["file"]["sha256"] == environment["wheels"][0]["sha256"]

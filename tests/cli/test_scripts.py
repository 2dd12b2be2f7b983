"""Scripts that ask `gpu-node check-job` themselves, in a real bash: one test a case of scripts/.

A case: `script`, with `options` of the command; `code` is the script's, `out` what it prints, and
`log` what its file has; `times`: how many lines are checked. `$dir` is the folder of the script.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests import case_files
from tests.case_files import Case
from tests.commands import BIN, SECONDS, environment

pytestmark = pytest.mark.slow
CASES = case_files.cases(Path(__file__).parent / "scripts")
LAUNCHERS = ("deepspeed", "torchrun", "srun", "sudo", "nohup")
CONFIG = {
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}},
}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_script_asks(case: Case, folder: Path) -> None:
    """Its line is checked as its shell expands it, and nothing is started."""
    started = folder / "started"
    (programs := folder / "bin").mkdir()
    for name in LAUNCHERS:
        (programs / name).write_text(f"#!/bin/sh\necho {name} >>{started}\n")
        (programs / name).chmod(0o755)
    (folder / "train.sh").write_text(case.data["script"])
    (folder / "xuanyuan").mkdir()
    (folder / "xuanyuan" / "ds.json").write_text(json.dumps(CONFIG))
    options = " ".join(case.data.get("options", ())).replace("$dir", str(folder))
    check = f'CHECK="$(command -v gpu-node) check-job $PWD/site.yml {options} --"'
    done = subprocess.run(
        ["bash", "-c", f"{check} bash train.sh"],
        cwd=folder,
        env={**environment(), "PATH": f"{programs}:{BIN}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    printed = " ".join(done.stdout.split())
    assert not started.exists(), done
    assert done.returncode == case.data["code"], done
    assert all(words in printed for words in case.data.get("out", ())), done
    assert printed.count("; started on ") == case.data.get("times", "out" in case.data), done
    if "log" in case.data:
        assert all(words in (folder / "log").read_text() for words in case.data["log"])


def test_a_script_without_the_word(folder: Path) -> None:
    """It starts the job: the word is what holds it back."""
    (folder / "torchrun").write_text("#!/bin/sh\necho started\n")
    (folder / "torchrun").chmod(0o755)
    (folder / "train.sh").write_text("${CHECK:-} torchrun train.py\n${CHECK:+exit}\n")
    path = f"{folder}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-u", "train.sh"],
        cwd=folder,
        env={**environment(), "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "started\n")

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
    "train_batch_size": 7,
}


def bash(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a text in a folder, which has the launchers that come first in PATH."""
    return subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env={
            **environment(),
            "PATH": f"{folder / 'bin'}:{BIN}:{os.environ['PATH']}",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


@pytest.fixture
def launchers(folder: Path) -> Path:
    """A folder with programs that leave a file behind when they are started."""
    (folder / "bin").mkdir()
    for name in LAUNCHERS:
        (folder / "bin" / name).write_text(f"#!/bin/sh\necho {name} >>{folder / 'started'}\n")
        (folder / "bin" / name).chmod(0o755)
    (folder / "xuanyuan").mkdir()
    (folder / "xuanyuan" / "ds.json").write_text(json.dumps(CONFIG))
    return folder


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_script_asks(case: Case, launchers: Path) -> None:
    """Its line is checked as its shell expands it, and nothing is started."""
    (launchers / "train.sh").write_text(case.data["script"])
    options = " ".join(case.data.get("options", ())).replace("$dir", str(launchers))
    check = f'CHECK="$(command -v gpu-node) check-job $PWD/site.yml {options} --"'
    done = bash(f"{check} bash train.sh", launchers)
    printed = " ".join(done.stdout.split())
    assert not (launchers / "started").exists(), done
    assert done.returncode == case.data["code"], done
    assert all(words in printed for words in case.data.get("out", ())), done
    assert printed.count("; started on ") == case.data.get("times", "out" in case.data), done
    if "log" in case.data:
        assert all(words in (launchers / "log").read_text() for words in case.data["log"])


def test_a_script_on_the_node_that_starts_the_job(launchers: Path) -> None:
    """The folder it goes to, its PATH and its variables count: this machine is asked as a node."""
    script = """cd xuanyuan
NCCL_IB_DISABL=1 TOKEN=s3cret ${CHECK:-} deepspeed --num_gpus 3 train.py --deepspeed ds.json
${CHECK:+exit}
"""
    (launchers / "train.sh").write_text(script)
    check = 'CHECK="$(command -v gpu-node) check-job @local --format json --"'
    done = bash(f"{check} bash train.sh", launchers)
    assert not (launchers / "started").exists(), done
    (host,) = json.loads(done.stdout)["hosts"].values()
    found = {(each["rule"], each["subject"]) for each in host["findings"]}
    assert found >= {
        ("job.path", "train.py"),
        ("job.variable", "NCCL_IB_DISABL"),
        ("job.batch", "train_batch_size"),
    }
    assert "s3cret" not in done.stdout


def test_a_script_without_the_word(launchers: Path) -> None:
    """It starts the job: the variable is what holds it back."""
    (launchers / "train.sh").write_text("${CHECK:-} torchrun train.py\n${CHECK:+exit}\n")
    done = bash("bash -u train.sh", launchers)
    assert (done.returncode, (launchers / "started").read_text()) == (0, "torchrun\n")

"""What is read of a launch line and of a script: one test a case of launch.yml and script.yml."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_node.drift.job import configs
from gpu_node.drift.job.configs import Wrong
from gpu_node.drift.job.job import Given, job_of
from gpu_node.drift.job.launch import Launch, NoLaunch, of_script, of_words
from gpu_node.drift.job.words import UNKNOWN, NotClosed
from gpu_node.facts.job.state import File, JobState
from gpu_node.facts.probe.peers import Peer
from tests import case_files
from tests.case_files import Case

CASES = case_files.cases(Path(__file__).parent)
EMPTY = Launch("", "")
# Words of which most scripts are made, so that what is drawn is often one.
PIECES = st.sampled_from(
    [
        *("torchrun", "deepspeed", "mpirun", "srun", "accelerate launch", "train.py", "python -m"),
        *("--nproc_per_node", "--nnodes=", "-np", "-H", "a:2,b", "--include", "A=", "A+=(", ")"),
        *("$A", "${A}", "${A[@]}", "$(", "`", '"', "'", "\\", "\n", " ", ";", "&&", "<<E", "\nE\n"),
        *("if", "then", "fi", "cd", "export", "#", "#SBATCH ", "2", "/x", "\0", "\x1f"),
    ]
)


def read(case: Mapping[str, Any]) -> Launch:
    """Return the launch of a case's script, or of its line."""
    return of_script(case["script"]) if "script" in case else of_words(shlex.split(case["line"]))


def shown(launch: Launch | None) -> dict[str, Any] | None:
    """Return what a launch has, but for what it lacks and for its program; ? is unknown."""
    if launch is None:
        return None
    found = {each.name: getattr(launch, each.name) for each in fields(launch)}
    own = {name: each for name, each in found.items() if each != getattr(EMPTY, name)}
    return {
        name: shown(each) if name == "inner" else plain(each)
        for name, each in own.items()
        if name != "program"
    }


def plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    return value.replace(UNKNOWN, "?") if isinstance(value, str) else value


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_launch(case: Case) -> None:
    """It is read as the case says, or refused for its reason."""
    if "error" in case.data:
        with pytest.raises((NoLaunch, NotClosed), match=r".") as error:
            read(case.data)
        assert case.data["error"] in str(error.value)
    else:
        wanted = {"is_module": False, "line": 0, **case.data["is"]}
        found = {"is_module": False, "line": 0, **(shown(read(case.data)) or {})}
        assert found == wanted


@given(st.lists(PIECES, max_size=40).map("".join) | st.text(max_size=200))
def test_any_script_is_read_or_refused(text: str) -> None:
    """And what is read makes a job, whatever it names."""
    try:
        launch = of_script(text)
    except (NoLaunch, NotClosed):
        return
    job = Given(launch, "/data")
    assert all(UNKNOWN not in path for path in (*job.asked().paths, *job.asked().files))
    peers = [Peer(name="a", address="192.0.2.1")]
    assert job_of(job, "a", {}, peers).members


KEYS = st.sampled_from(
    [*configs.DeepSpeed.model_fields, *configs.Zero.model_fields, "enabled", "device", "x"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9) | st.just("auto"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=8,
)


@given(JSON)
def test_any_configuration_is_read_or_wrong(value: object) -> None:
    """A configuration of another form has its line and what is allowed, and no traceback."""
    for text in (json.dumps(value), json.dumps(value, indent=1)):
        found = configs.deepspeed(text)
        assert isinstance(found, Wrong | configs.DeepSpeed)
        assert isinstance(configs.accelerate(text), Wrong | configs.Accelerate)
        if isinstance(found, Wrong):
            assert found.allowed and found.line <= text.count("\n") + 1


@given(st.text(max_size=200))
def test_any_text_is_a_file(text: str) -> None:
    for read in (configs.deepspeed, configs.accelerate, configs.deepspeed_hosts):
        assert read(text)
    configs.mpi_hosts(text.split("\n"))
    state = JobState(files=(File(path="hostfile", text=text.replace("\ud800", "")),))
    job = Given(of_words(["deepspeed", "--hostfile", "hostfile", "x.py"]), "/data")
    assert job_of(job, "a", {"a": state}, []).members == {"a": None}


def test_a_script_is_read_in_time_that_grows_with_its_length() -> None:
    """Variables that double themselves, and expansions without an end, are given up."""
    doubled = "A=xx\n" + "A=$A$A\n" * 5000 + "torchrun train.py $A\n"
    assert shown(of_script(doubled)) is not None
    for opening in ("$(", "${", '"$(', "`", "<<E\n", "A=("):
        with pytest.raises((NoLaunch, NotClosed)):
            of_script(opening * 20_000)

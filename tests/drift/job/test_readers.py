"""What is read of a launch line and of the files of a job: one test a case of launch.yml."""

from __future__ import annotations

import json
import shlex
import tracemalloc
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpu_node.drift.job import configs
from gpu_node.drift.job.configs import Wrong
from gpu_node.drift.job.job import Given, Job, job_of
from gpu_node.drift.job.launch import Launch, NoLaunch, of_words
from gpu_node.drift.job.names import UNKNOWN
from gpu_node.drift.job.outline import lines
from gpu_node.drift.report.model import report_of
from gpu_node.facts.job.state import File, JobState
from gpu_node.facts.probe.peers import Peer
from tests import case_files
from tests.case_files import Case
from tests.e2e.test_check_job import FAILING

CASES = case_files.cases(Path(__file__).parent)
EMPTY = Launch("", "")
# Words of command lines.
LINE = """
torchrun deepspeed mpirun srun accelerate launch python -m -mx torch.distributed.run train.py
sudo -E env -S -C nohup time -p nice -n numactl timeout conda uv poetry run exec eval A=1 -- -
docker apptainer -it -e -e= image --container-image=x bash -c -lc --nnodes --nnodes= 1:2 -N2 -np
--rdzv_endpoint a:1 : [::1]:2 --include a:0@b -H a:2,b --hostfile --node_rank -1 \u0662 ' ` $ ${N
--nproc_per_node $(id) --= = ~ ~x/ --data_dir /a/*.json {a,b}
"""
MORE = ("torchrun a.py", "srun bash -c 'torchrun a.py'", "9" * 30, "\0", "")
WORDS = st.sampled_from((*LINE.split(), *MORE))


def shown(launch: Launch | None) -> dict[str, Any] | None:
    """Return what a launch has, but for what it lacks, its program and is_cut; ? is unknown."""
    if launch is None:
        return None
    found = {each.name: getattr(launch, each.name) for each in fields(launch)}
    own = {name: each for name, each in found.items() if each != getattr(EMPTY, name)}
    return {
        name: shown(each) if name == "inner" else plain(each)
        for name, each in own.items()
        if name not in ("program", "is_cut", "passed")
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
        with pytest.raises(NoLaunch) as error:
            of_words(shlex.split(case.data["line"]))
        assert str(error.value) == case.data["error"]
    else:
        assert shown(of_words(shlex.split(case.data["line"]))) == case.data["is"]


@pytest.mark.parametrize("line", [line for line, _ in FAILING.values()])
def test_a_line_of_the_jobs_that_fail(line: str) -> None:
    """It has no option that its launcher lacks, and no number out of range: it fails otherwise."""
    for each in of_words(line.rpartition("-- ")[2].split()).nested:
        numbers = each.row.numbers.items()
        assert each.is_whole
        assert all(number.has(each.options.get(name, "1")) for name, number in numbers)


@pytest.mark.parametrize(
    ("line", "paths"),
    [
        ("torchrun train.py --data_dir /data/set", ["/nowhere", "train.py", "/data/set"]),
        ("torchrun train.py --data_dir '/data/*.json'", ["/nowhere", "train.py"]),
        ("mpirun -np 2 nccl-tests --out_dir out/x", ["/nowhere", "out/x"]),
        ("mpirun -np 2 bin/nccl-tests", ["/nowhere", "bin/nccl-tests"]),
        ("docker run image torchrun /app/train.py --data_dir /data/set", ["/nowhere"]),
    ],
)
def test_the_paths_that_the_nodes_are_asked_about(line: str, paths: list[str]) -> None:
    """The folder of the job is the first; a program of PATH, and what a container has, is none."""
    assert list(Given(of_words(shlex.split(line)), "/nowhere").paths) == paths


def made(launch: Launch) -> Job:
    """Return the job of a launch; what it asks and prints has nothing in it that is unknown."""
    given = Given(launch, "/data")
    asked = given.asked()
    for text in (*asked.paths, *asked.files, *asked.programs, *asked.names, asked.hostfile):
        assert UNKNOWN not in text
    found = job_of(given, "a", {}, [Peer(name="a", address="192.0.2.1")])
    assert all(UNKNOWN not in line for line in lines(found, report_of("x", {})))
    for faults in found.faults.values():
        assert all(each.found and each.wanted for each in faults)
    return found


@example(["docker", "run", "-e", "A=$N", "image", "srun", "bash", "-c", "torchrun '$N' *"])
@example(["srun"] * 3000)
@given(st.lists(WORDS | st.text(max_size=5), max_size=12))
def test_any_line_is_read_or_refused(words: list[str]) -> None:
    """And what is read makes a job, and lines about it."""
    try:
        launch = of_words(words)
    except NoLaunch as error:
        assert str(error)
        return
    assert made(launch).members


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
    for read in (configs.deepspeed, configs.accelerate):
        assert read(text)
    for form in ("slots", "mpi", "names"):
        assert configs.hosts(text.split("\n"), form)
    state = JobState(files=(File(path="hostfile", text=text.replace("\ud800", "")),))
    job = Given(of_words(["deepspeed", "--hostfile", "hostfile", "x.py"]), "/data")
    assert job_of(job, "a", {"a": state}, []).members == {"a": None}


def test_a_hostfile_that_was_not_asked() -> None:
    """Any node may be in it but those without a GPU."""
    peers = [Peer(name=name, address=f"192.0.2.{at}", gpus=at) for at, name in enumerate("cab")]
    given = Given(of_words(["deepspeed", "--hostfile", "hostfile", "x.py"]), None)
    assert job_of(given, "a", {}, peers).members == {"a": None, "b": None}


def test_many_hosts_of_many_slots() -> None:
    """Slots are ranges, and so is what --include, --exclude and --num_gpus leave of them."""
    hosts = {f"a{number}": configs.MOST_GPUS for number in range(500)}
    text = "".join(f"{host} slots={slots}\n" for host, slots in hosts.items())
    assert configs.hosts(text.splitlines(), "slots") == hosts
    state = JobState(files=(File(path="hosts", text=text),))
    tracemalloc.start()
    for more in ("", "--exclude a7", "--include a0@a1", "--num_gpus 4096"):
        line = of_words(["deepspeed", "--hostfile", "hosts", *more.split(), "x.py"])
        peers = [Peer(name=name, address=name) for name in hosts]
        assert job_of(Given(line, "/data"), "a0", {"a0": state}, peers).gpus
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 4 << 20


@given(st.integers(0, 9), st.lists(st.integers(0, 9), max_size=5))
def test_what_is_excluded(slots: int, out: list[int]) -> None:
    """The GPUs that are left are those that DeepSpeed leaves."""
    listed = ",".join(map(str, out))
    found = configs.filtered({"a": slots, "b": 1}, None, f"a:{listed}" if out else None)
    if max(out, default=-1) >= slots:
        assert isinstance(found, Wrong) or not out
    else:
        assert not isinstance(found, Wrong)
        assert [*found.get("a", ())] == [each for each in range(slots) if each not in out]


SHADOW = "root:$y$j9T$planted$planted:19700:0:99999:7:::\ndaemon:planted\nplanted planted\n"


@pytest.mark.parametrize("launcher", ["deepspeed", "mpirun"])
@pytest.mark.parametrize("before", ["", "a slots=2\n"])
def test_a_hostfile_that_is_another_file(launcher: str, before: str) -> None:
    """Root starts the job of a line that a user has written: nothing of the file is shown."""
    state = JobState(files=(File(path="/etc/shadow", text=before + SHADOW),))
    words = [launcher, "--hostfile", "/etc/shadow", "x.py"]
    job = job_of(Given(of_words(words), "/data"), "a", {"a": state}, [])
    assert job.faults and "planted" not in f"{job.faults}{job.unread}{job.members}"

"""`gpu-node check-job` on two nodes that answer at once: what it prints, and its exit codes."""

from __future__ import annotations

import json
import os
import shlex
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gpu_node.cli.job import is_here, job_data
from gpu_node.cli.main import main
from gpu_node.drift.job.job import Given, Here, job_of
from gpu_node.drift.job.launch import of_words
from gpu_node.drift.job.outline import lines
from gpu_node.drift.report.model import report_of
from gpu_node.facts.ask.gather import Answer
from gpu_node.facts.host.state import Name
from gpu_node.facts.probe.request import JOB
from tests.case_files import merged
from tests.drift import states

Run = Callable[..., tuple[object, str, str]]
SCHEMA = Path(__file__).parents[2] / "drift" / "report" / "report.schema.json"
NODES = {"a100-01": "10.168.144.4", "v100-01": "10.168.144.5"}
CLUSTER = """cluster: c
defaults: {ssh: {user: root, key: key, known_hosts: known_hosts}}
hosts:
  a100-01: {address: 10.168.144.4}
  v100-01: {address: 10.168.144.5}
"""
PEERS = [{"name": name, "address": address, "gpus": 2} for name, address in NODES.items()]
V100 = {"name": "Tesla V100-PCIE-32GB", "memory": 32510, "capability": "7.0"}
DEEPSPEED = ["deepspeed", "--hostfile", "hostfile", "train.py", "--deepspeed", "ds.json"]
CONFIG = {"bf16": {"enabled": True}, "zero_optimization": {"stage": 3}}
FOLDER = "/data/job"
PATHS = (FOLDER, "train.py", "ds.json")
# The names of this machine, and what a shell of it has.
BOOT = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
OWN = {"name": socket.gethostname(), "boot": BOOT, "addresses": (), "offset": "+0000"}
SHELL = {"NCCL_SOCKET_IFNAME": "bond9", "NCCL_IB_DISABL": "1", "TOKEN": "s3cret"}
HOSTFILE = "a100-01 slots=2\nv100-01 slots=2\n"


def job(**texts: str | None) -> dict[str, Any]:
    """Return what a node has of the job: these files (None: missing), the script, and DeepSpeed."""
    missing = [path for path, text in texts.items() if text is None]
    packages = {"torch": "2.1.2", "deepspeed": "0.14.0"}
    return {
        "files": [
            {"path": path, "text": text or "", "problem": "missing" if text is None else ""}
            for path, text in texts.items()
        ],
        "paths": [
            {"path": "train.py", "kind": "file", "access": "r", "free": 1 << 40},
            *({"path": path, "kind": "missing", "access": "r", "free": 1} for path in missing),
        ],
        "programs": [{"name": "deepspeed", "path": "/e/bin/deepspeed", "python": "/e/bin/python"}],
        "pythons": [{"path": "/e/bin/python", "version": "3.10", "packages": packages}],
        "listening": {},
        "names": {},
    }


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command on the two nodes: exit code, stdout and stderr.

    `change` is one of both nodes, `other` of v100-01. `here`: this machine is the node that starts
    the job.
    """

    (folder / "site.yml").write_text(CLUSTER)

    def ran(
        *words: str,
        v100: bool = True,
        change: Any = None,
        other: Any = None,
        checks: Any = None,
        here: bool = False,
        **texts: str | None,
    ) -> tuple[object, str, str]:
        asked: list[Any] = []

        def gather(inventory: str, limit: object, deep: bool, data: Any, **_: Any) -> Any:
            if JOB in data:
                asked.append(data[JOB])
            return {name: answer(name) for name in NODES}

        def answer(name: str) -> Answer:
            data = {**states.BASE["wanted"], "cluster_nodes": PEERS, "ssh_hostname": NODES[name]}
            data |= {"checks": checks} if checks else {}
            of = {
                "job": job(**{path.replace("_json", ".json"): each for path, each in texts.items()})
            }
            gpus = {"driver": {"smi": {"gpus": [V100, V100]}}} if name == "v100-01" and v100 else {}
            made = merged(merged(of, gpus), change or {})
            made = merged(made, (other or {}) if name == "v100-01" else {})
            made = merged(made, {"host": {"name": {**OWN, "boot": BOOT if here else "another"}}})
            state = states.state(states.named(made, name))  # type: ignore[arg-type]
            return Answer(data, state, reached=True)

        monkeypatch.setattr("gpu_node.cli.asking.gather", gather)
        started = [] if here else ["--dir", FOLDER]
        line = ["gpu-node", "check-job", str(folder / "site.py"), *started, *words]
        monkeypatch.setattr(sys, "argv", line)
        with pytest.raises(SystemExit) as ended:
            main()
        assert [each.paths for each in asked] == [(os.getcwd() if here else FOLDER, *PATHS[1:])]
        output = capsys.readouterr()
        return ended.value.code, output.out, output.err

    monkeypatch.setenv("COLUMNS", "120")
    return ran


def test_bf16_on_a_v100(run: Run) -> None:
    """What the file says is judged as `jobs` of the inventory; one list has all that stops it."""
    code, out, err = run("--", *DEEPSPEED, hostfile=HOSTFILE, ds_json=json.dumps(CONFIG))
    assert (code, err) == (2, "")
    head = "deepspeed on a100-01 (2 ranks), v100-01 (2 ranks); bf16; ZeRO 3; started on a100-01"
    assert out.splitlines()[:2] == [head, "read: hostfile, ds.json of a100-01"]
    assert "toolchain.precision" in out and "v100-01" in out


def test_what_is_off_is_shown(run: Run) -> None:
    """It stops no job, and is not hidden; what bears on no job is left out here as well."""
    change = {"shm": {"usage": {"size": 67108864}, "fstab": []}}
    given = {"change": change, "checks": {"shm": False}, "hostfile": "a100-01 slots=2\n"}
    code, out, _ = run("--", *DEEPSPEED, ds_json="{}", **given)
    assert "1 finding off by checks in the inventory (not repaired, no failure):" in out
    assert "shm (false): 1 finding on a100-01: shm.too-small" in out
    assert code == run("--", *DEEPSPEED, ds_json="{}", hostfile="a100-01 slots=2\n")[0]


def test_one_list(run: Run) -> None:
    """Of the nodes of the job alone; the other rules of the report are left out."""
    config = json.dumps({"train_batch_size": 7})
    _, out, _ = run("--", *DEEPSPEED, hostfile="a100-01 slots=3\n", ds_json=config)
    found = [line.split()[2] for line in out.splitlines() if line.startswith("error")]
    assert found == ["job.slots", "job.batch"]
    assert "2 problems will stop it:" in out and "v100-01" not in out


def test_a_sound_job(run: Run) -> None:
    """Nothing is found, and nothing else is shown."""
    config = json.dumps({"fp16": {"enabled": True}, "train_batch_size": 8})
    code, out, err = run("--", *DEEPSPEED, v100=False, hostfile="a100-01 slots=2\n", ds_json=config)
    assert (code, err) == (0, "")
    assert "Nothing was found that will stop it." in out


def interface(name: str) -> dict[str, Any]:
    """Return a change of the healthy node: another interface, which all its files name."""
    changed = {key: states.BASE["found"][key] for key in ("network", "env")}
    text = json.dumps(changed).replace("eno1", name).replace("192.0.2.10", "192.0.2.11")
    found: dict[str, Any] = json.loads(text)
    return found


def test_an_interface_that_deepspeed_sends(run: Run) -> None:
    """The launching node alone is judged; no deploy repairs what the inventory does not name."""
    given: dict[str, Any] = {"v100": False, "hostfile": HOSTFILE, "ds_json": "{}"}
    given["change"] = {"toolchain": {"build": {"pdsh": "/usr/bin/pdsh"}}}
    line = ["--format", "json", "--", *DEEPSPEED]
    code, out, _ = run(*line, other=interface("bond0"), **given)
    override = "network.launcher-override"
    assert code == 2
    assert rules_of(out, override) == {("a100-01", "NCCL_SOCKET_IFNAME in a launcher's shell")}
    (found,) = findings(out, override).values()
    assert not found["fixable"] and "set launcher: deepspeed in the inventory" in found["fix"]
    assert "v100-01 would look for" in found["cause"]
    # The other's has the same name; the line does not send it.
    assert not rules_of(run(*line, other=interface("eno1"), **given)[1], override)
    line[3:3] = ["env", "-u", "NCCL_SOCKET_IFNAME"]
    assert not rules_of(run(*line, other=interface("bond0"), **given)[1], override)


def test_pdsh_that_no_deploy_installs(run: Run) -> None:
    """Without launcher: deepspeed in the inventory; it is judged where the job starts."""
    line = ["--from", "v100-01", "--format", "json", "--", *DEEPSPEED]
    _, out, _ = run(*line, v100=False, hostfile=HOSTFILE, ds_json="{}")
    assert rules_of(out, "toolchain.pdsh") == {("v100-01", "pdsh")}
    (found,) = findings(out, "toolchain.pdsh").values()
    assert not found["fixable"] and found["fix"].startswith("set launcher: deepspeed in")


@pytest.mark.parametrize("options", ["--launcher openmpi", "--launcher=SLURM", "--no_ssh"])
def test_deepspeed_without_pdsh(run: Run, options: str) -> None:
    """Another program starts the ranks of other nodes, or a person does."""
    line = ["--format", "json", "--", "deepspeed", *options.split(), *DEEPSPEED[1:]]
    _, out, _ = run(*line, v100=False, hostfile=HOSTFILE, ds_json="{}")
    assert not rules_of(out, "toolchain.pdsh")


def test_less_than_wished(run: Run) -> None:
    """The report has errors about it, and neither stops a job."""
    session = {"nofile": {"soft": 20000, "hard": 20000}, "memlock": {"soft": 1, "hard": 8 << 20}}
    change = {"limits": {"session": session, "files": []}, "shm": {"usage": {"size": 6 << 30}}}
    given = {"change": change, "v100": False, "hostfile": "a100-01 slots=2\n"}
    code, out, _ = run("--", *DEEPSPEED, ds_json="{}", **given)
    assert (code, "Nothing was found that will stop it." in out) == (0, True)


def test_the_size_of_the_model(run: Run) -> None:
    """--parameters are judged as those of the inventory."""
    line = ["--format", "json", "--", *DEEPSPEED]
    files: dict[str, Any] = {"hostfile": HOSTFILE, "ds_json": json.dumps(CONFIG)}
    assert not rules_of(run(*line, **files)[1], "host.memory-for-job")
    found = rules_of(run("--parameters", "700B", *line, **files)[1], "host.memory-for-job")
    assert ("a100-01", "GPU memory for the job") in found


def test_a_number_that_is_not_set_here(run: Run) -> None:
    """It is named, and not judged."""
    words = ["--", "deepspeed", "--num_gpus", "", *DEEPSPEED[1:]]
    _, out, _ = run(*words, hostfile="a100-01 slots=2\n", ds_json="{}")
    assert "unknown, not judged: --num_gpus" in out


def test_the_shell_of_the_node_that_starts_it(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its folder, PATH and variables count; DeepSpeed sends those of NCCL to the other node."""
    for name, value in SHELL.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "deepspeed").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    line = ["--format", "json", "--", *DEEPSPEED]
    code, out, _ = run(*line, here=True, hostfile=HOSTFILE, ds_json="{}")
    of = rules_of(out, "job.variable")
    assert code == 2 and "s3cret" not in out
    interface, misspelt = "NCCL_SOCKET_IFNAME", "NCCL_IB_DISABL"
    assert of == {("a100-01", interface), ("v100-01", interface), ("a100-01", misspelt)}


def test_the_shell_of_another_machine(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its variables may not be the job's: they are named, and not judged."""
    for name, value in SHELL.items():
        monkeypatch.setenv(name, value)
    _, out, _ = run("--", *DEEPSPEED, hostfile=HOSTFILE, ds_json="{}")
    assert "job.variable" not in out and "TOKEN" not in out
    assert "unknown, not judged: NCCL_IB_DISABL of this shell, NCCL_SOCKET_IFNAME of this" in out


@pytest.mark.parametrize(("name", "is_asked"), [("env", True), ("my env", False)])
def test_the_environment_of_the_line(folder: Path, name: str, is_asked: bool) -> None:
    """One that no inventory may name is not asked about; the job is judged all the same."""
    given = Given(of_words([f"/data/{name}/bin/torchrun", "train.py"]), "/data")
    data = job_data(str(folder / "site.py"), (), given)
    assert ("nccl_environments" in data) is is_asked


def findings(out: str, rule: str) -> dict[tuple[str, str], Any]:
    """Return the findings of a rule by node and subject."""
    return {
        (node, each["subject"]): each
        for node, host in json.loads(out)["hosts"].items()
        for each in host["findings"]
        if each["rule"] == rule
    }


def rules_of(out: str, rule: str) -> set[tuple[str, str]]:
    """Return node and subject of each finding of a rule."""
    return {*findings(out, rule)}


@pytest.mark.parametrize(
    ("line", "sent"),
    {
        "torchrun --nnodes 2 train.py": [],
        "deepspeed train.py": ["NCCL_DEBUG"],
        "mpirun -x CUDA_VISIBLE_DEVICES -np 2 python train.py": ["CUDA_VISIBLE_DEVICES"],
        "srun -N2 python train.py": ["CUDA_VISIBLE_DEVICES", "NCCL_DEBUG"],
        "srun --export=NCCL_DEBUG,A=1 python train.py": ["A", "NCCL_DEBUG"],
        "srun --export NONE python train.py": [],
        "sudo deepspeed train.py": [],
        "env -u A deepspeed train.py": [],
    }.items(),
)
def test_what_a_launcher_sends(line: str, sent: list[str]) -> None:
    """Of the shell that starts it; the folder as well, but for torchrun."""
    here = Here("/data", {}, {"NCCL_DEBUG": "INFO", "CUDA_VISIBLE_DEVICES": "0"})
    given = Given(of_words(shlex.split(line)), "/data", here=here)
    assert sorted(given.variables(is_launcher=False)) == sent
    assert given.is_clear("train.py", is_launcher=False) is ("torchrun" not in line)
    assert given.is_clear("train.py", is_launcher=True)


def test_the_input_of_a_script(run: Run) -> None:
    """Nothing that the command starts reads it."""
    kept, (reading, writing) = os.dup(0), os.pipe()
    os.dup2(reading, 0)
    try:
        run("--", *DEEPSPEED, hostfile=HOSTFILE, ds_json="{}")
        assert os.fstat(0).st_rdev == os.stat(os.devnull).st_rdev
    finally:
        os.dup2(kept, 0)
        for descriptor in (kept, reading, writing):
            os.close(descriptor)


@pytest.mark.parametrize("other", [{}, {"boot": "other"}, {"boot": ""}, {"name": "other"}])
def test_this_machine(other: dict[str, str]) -> None:
    """It has the kernel's boot and the name: a container has the one alone."""
    assert is_here(Name.model_validate({**OWN, **other})) is not bool(other)
    assert not is_here(None)


def test_answers(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the scripts of `gpu-node probe`: the nodes are judged, and the job's own files are not."""
    answer = Answer(dict(states.BASE["wanted"]), states.state({}), reached=True)
    monkeypatch.setattr("gpu_node.facts.ask.offline.answers", lambda *_: {"a100-01": answer})
    (folder / "answers").mkdir()
    line = ["--", "deepspeed", "--hostfile", "/h", "--num_gpus", "9", "train.py"]
    words = ["check-job", str(folder / "site.py"), "--answers", str(folder / "answers"), *line]
    monkeypatch.setattr(sys, "argv", ["gpu-node", *words])
    with pytest.raises(SystemExit):
        main()
    assert "deepspeed on a100-01; started on a100-01" in (out := capsys.readouterr().out)
    assert "unknown, not judged: the working directory (--dir), /h" in out


def test_the_json_is_a_report(run: Run) -> None:
    """By the schema of the drift report, without the texts of the job's files."""
    secret = json.dumps({"bf16": {"enabled": True}, "comment": "s3cret"})
    code, out, _ = run("--format", "json", "--", *DEEPSPEED, hostfile=HOSTFILE, ds_json=secret)
    report = json.loads(out)
    jsonschema.validate(report, json.loads(SCHEMA.read_text()))
    rules = {each["rule"] for host in report["hosts"].values() for each in host["findings"]}
    assert code == 2 and "toolchain.precision" in rules and "s3cret" not in out


def test_a_configuration_of_this_machine(run: Run, tmp_path: Path) -> None:
    """--config names it, and the report says whose it is."""
    file = tmp_path / "ds.json"
    file.write_text('{"train_batch_size": 7}')
    line = ["--config", str(file), "--", *DEEPSPEED]
    code, out, _ = run(*line, hostfile="a100-01 slots=2\n")
    assert code == 2 and "job.batch" in out
    assert f"read: {file} of this machine; hostfile of a100-01" in out


def test_a_configuration_that_is_nowhere(run: Run) -> None:
    """It is one thing that stops the job, though its path is one of the job's paths, too."""
    line = ["--config", "ds.json", "--", "deepspeed", "--hostfile", "hostfile", "train.py"]
    code, out, _ = run(*line, hostfile="a100-01 slots=2\n", ds_json=None)
    found = [line.split()[2] for line in out.splitlines() if line.startswith("error")]
    assert (code, found) == (2, ["job.config"]) and "1 problem will stop it:" in out


def test_a_file_that_this_machine_has(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one starts the job: where it was looked for, and that it is here."""
    monkeypatch.chdir(tmp_path)
    given: dict[str, Any] = {"hostfile": "a100-01 slots=2\n", "ds_json": None}
    out = " ".join(run("--full", "--", *DEEPSPEED, **given)[1].split())
    assert "missing in /data/job" in out and "this machine has one" not in out
    (tmp_path / "ds.json").touch()
    out = " ".join(run("--full", "--", *DEEPSPEED, **given)[1].split())
    assert "missing in /data/job; this machine has one" in out


UNKNOWN = {
    "torchrun --nproc_per_node= --nnodes '' train.py": "--nproc_per_node, --nnodes",
    "torchrun --zebra train.py": "--zebra",
    "torchrun train.py --data_dir '/data/*.json'": "--data_dir",
    "sudo torchrun train.py": "the PATH and the variables behind sudo",
    "srun -N1 bash train.sh": "what train.sh starts",
}


@pytest.mark.parametrize("line", UNKNOWN)
def test_what_is_unknown_is_named(line: str) -> None:
    """A job whose options, program or environment only the shell knows."""
    given = Given(of_words(shlex.split(line)), "/data")
    shown = list(lines(job_of(given, "a100-01", {}, []), report_of("site.py", {})))
    assert f"unknown, not judged: {UNKNOWN[line]}" in shown

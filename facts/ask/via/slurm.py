"""The probe as Slurm jobs: `srun` starts one task on each node, as the user who calls.

A job for each node, not one for all: a node that is in use or slow keeps no other from its answer,
and the output of two nodes never shares a stream. A job starts within seconds or not at all, and
has a time limit. What `srun` reads from its environment, such as SLURM_PARTITION or SLURM_ACCOUNT,
is the user's choice; of the other variables a job gets those that a shell needs, and no token.
"""

import math
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpu_node.facts.ask.controller import run_here
from gpu_node.facts.ask.gather import Answer
from gpu_node.facts.ask.via.processes import Errand, run_all
from gpu_node.facts.ask.via.question import COMMAND, NAME, Carried, Question
from gpu_node.facts.probe.frame import MARK
from gpu_node.facts.probe.lines import lines_of

# How long a job may wait for its node, and how many are started side by side.
START_SECONDS, PARALLEL = 10, 50
# What Slurm itself takes to end a job, above the probe's time limit.
_MORE_SECONDS = 30
_SINFO_SECONDS = 30
_SINFO = ("sinfo", "--all", "--Node", "--noheader", "--format=%N|%T|%G|%E")
# States in which no job starts. A `*` behind a state: the node does not respond; `~`: it has no
# power, and a report is no reason to give it some.
_CLOSED = frozenset(
    (
        "down",
        "drained",
        "draining",
        "drain",
        "fail",
        "failing",
        "error",
        "unknown",
        "future",
        "inval",
    )
)
_NO_RESPONSE, _NO_POWER = "*", "~%"
# Variables of srun that ask for GPUs: where one is set, it decides.
_GPU_VARIABLES = ("SLURM_GRES", "SLURM_GPUS", "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_TASK")
_GPUS = re.compile(r"(?:^|,)gpu(?::[A-Za-z0-9_.-]+)*?:(?P<count>[0-9]{1,4})(?=[(,]|$)")
_EXPORTED = ("HOME", "LOGNAME", "PATH", "SHELL", "USER")
# Variables of srun that would change what carries the answer, a token, which srun hands on to the
# job, and those of a job that this process may be in: srun would start a step of that job.
_NOT_HANDED_ON = re.compile(
    r"SLURM_(JOB|STEP)(_?ID|_.*)?|SLURM_(NNODES|NODELIST|NODE_ALIASES|NTASKS|NTASKS_PER_NODE|NPROCS|"
    r"TASKS_PER_NODE|HOSTFILE|DISTRIBUTION|LABELIO|UNBUFFEREDIO|STDINMODE|STDOUTMODE|STDERRMODE|"
    r"IMMEDIATE|TIMELIMIT|DEBUG|JWT|MULTI_PROG|REMOTE_CWD|WORKING_DIR|PTY_.*)"
)
_NOISE = re.compile(r"^srun: job [0-9]+ (queued|has been allocated)")
_PROGRAM = re.compile(r"^(srun|sinfo): (error: |fatal: )?")


class NoSlurm(Exception):
    """Slurm cannot be asked from this machine; str() is the reason."""


@dataclass(frozen=True)
class Member:
    """A node as Slurm knows it: its state, the reason for it, and how many GPUs it has."""

    state: str
    reason: str = ""
    gpus: int = 0

    @property
    def closed(self) -> str:
        """Why no job starts there; "" where one may."""
        base = re.sub(r"[^a-z_]+$", "", self.state)
        marks = self.state[len(base) :]
        because = f": {self.reason}" if self.reason else ""
        if _NO_RESPONSE in marks:
            return f"Slurm has it as {base}, and its slurmd does not respond{because}"
        if any(each in marks for each in _NO_POWER):
            return f"Slurm has switched it off to save power ({self.state})"
        return f"Slurm has it as {base}{because}" if base in _CLOSED else ""


def gather(questions: Sequence[Question], last: float) -> dict[str, Answer]:
    """Ask nodes by Slurm jobs, by name in their order. Raises NoSlurm."""
    if shutil.which("srun") is None:
        raise NoSlurm("no program srun in PATH")
    members = known()
    closed = {question.name: _closed(question.name, members) for question in questions}
    asked = {question.name: question for question in questions if not closed[question.name]}
    errands = [_errand(each, members[name]) for name, each in asked.items()]
    answers = run_all(errands, last, PARALLEL, lambda each: _answer(asked[each.name], each))
    return {
        question.name: answers.get(question.name)
        or Answer(dict(question.data), error=closed[question.name])
        for question in questions
    }


def known() -> dict[str, Member]:
    """Return the nodes that Slurm has in a partition, by name. Raises NoSlurm."""
    try:
        done = run_here(_SINFO, _SINFO_SECONDS, {"LC_ALL": "C"})
    except OSError as error:
        raise NoSlurm(f"cannot run sinfo: {error.strerror}") from error
    except subprocess.TimeoutExpired:
        raise NoSlurm(f"sinfo did not end within {_SINFO_SECONDS} s") from None
    if done.returncode != 0:
        raise NoSlurm(f"sinfo: {_last(lines_of(done.stderr)) or f'exit {done.returncode}'}")
    members = {}
    for line in lines_of(done.stdout):
        name, *rest = line.split("|", 3)
        if len(rest) == 3:
            state, gres, reason = rest
            members[name] = Member(state, "" if reason == "none" else reason, _gpus(gres))
    return members


def _gpus(gres: str) -> int:
    """Return the number of GPUs in a node's Gres, such as `gpu:a100:8(S:0-1)`."""
    return sum(int(each["count"]) for each in _GPUS.finditer(gres))


def _closed(name: str, members: Mapping[str, Member]) -> str:
    if not NAME.fullmatch(name) or name not in members:
        return (
            "Slurm has no node of this name in a partition; next: compare with sinfo -N, and name "
            "the host in the inventory as Slurm does"
        )
    return members[name].closed


def _errand(question: Question, member: Member) -> Errand:
    """Return the job of a node. It has all of the node's GPUs: cgroups hide those of others."""
    minutes = math.ceil((question.seconds + _MORE_SECONDS) / 60)
    gpus = member.gpus if not any(variable in os.environ for variable in _GPU_VARIABLES) else 0
    argv = [
        *("srun", "--nodes=1", "--ntasks=1", "--ntasks-per-node=1", f"--nodelist={question.name}"),
        *("--job-name=gpu-node", f"--immediate={START_SECONDS}", f"--time={minutes}"),
        *("--chdir=/", "--mpi=none", "--input=all", "--kill-on-bad-exit=0"),
        f"--export={','.join(_EXPORTED)}",
        *([f"--gres=gpu:{gpus}"] if gpus else []),
        *("sh", "-c", COMMAND),
    ]
    seconds = question.seconds + START_SECONDS + _MORE_SECONDS
    environment = {
        key: value for key, value in os.environ.items() if not _NOT_HANDED_ON.fullmatch(key)
    }
    return Errand(question.name, argv, lambda: question.script, seconds, environment)


def _answer(question: Question, carried: Carried) -> Answer:
    """Return the answer of a node; without any of its output the job did not start."""
    if MARK.encode() in carried.out or carried.code in (None, 0):
        return question.answer(carried)
    why = _last(carried.errors) or "no reason"
    return Answer(dict(question.data), error=f"Slurm started no job on it: {why}")


def _last(lines: Sequence[str]) -> str:
    """Return the last error that Slurm prints, without its program's name."""
    errors = [_PROGRAM.sub("", line) for line in lines if line and not _NOISE.match(line)]
    return errors[-1].strip() if errors else ""

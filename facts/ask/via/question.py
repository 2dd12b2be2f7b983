"""What is asked of a node that another engine reaches, and what its answer is worth.

An answer is judged as one of `gpu-node probe` is: it must name the node and this run's number, so
that neither another node's nor an earlier answer counts; and as one over SSH: the same limits.
"""

import getpass
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from gpu_node.facts.ask.gather import Answer
from gpu_node.facts.ask.offline import MOST_BYTES, MOST_LINES, STAMP, beginning, outside
from gpu_node.facts.ask.session import ProbeError, state_of, whole
from gpu_node.facts.node import NodeProbe
from gpu_node.facts.probe.bounds import in_words
from gpu_node.facts.probe.frame import MARK, READER, by_stdin
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.protocol import Times, time_limit
from gpu_node.facts.probe.request import ProbeRequest, request_of

# Names that are one word to every engine and to sh, and that an answer may have.
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,254}")
TOO_MUCH = (
    f"it sent more than {MOST_BYTES // 1024 // 1024} MiB, or {MOST_LINES} lines; the rest was "
    "not read; check what the login shell and the programs there print"
)
# What runs the script that stdin brings.
COMMAND = READER
# What a job prints whose environment does not name its node.
UNNAMED = f"{MARK} unnamed"
_NAMED = f'[ -n "${{SLURMD_NODENAME-}}" ] || {{ echo "{UNNAMED}"; exit 1; }}\n'
_JOB_ID = f'echo "{MARK} job ${{SLURM_JOB_ID:--}}"\n'
_UNNAMED = re.compile(rf"^{UNNAMED}$", re.MULTILINE)
_JOB = re.compile(rf"^{MARK} job (?P<id>[0-9]{{1,10}})$", re.MULTILINE)


@dataclass(frozen=True)
class Carried:
    """What an engine brought back from a node, and when it asked and had it (seconds since 1970).

    `code` is the exit code of what carried the probe; None: it was given up, for the reason in
    `problem`.
    """

    name: str
    code: int | None
    out: bytes = b""
    err: bytes = b""
    asked: float = 0
    answered: float = 0
    problem: str = ""
    # Whether the node itself has printed anything.
    reached: bool = False

    @property
    def errors(self) -> list[str]:
        """Its lines on stderr that are not empty."""
        lines = lines_of(self.err.decode("utf-8", "replace"))
        return [line.strip() for line in lines if line.strip()]


def is_of_caller(request: ProbeRequest) -> bool:
    """Whether a job's user is the training user: another user's keys open no node."""
    return request.user == getpass.getuser()


@dataclass(frozen=True)
class Question:
    """The probe for one node; `number` is 16 hex digits that only this run has.

    `in_job`: a Slurm job runs it, as the user who calls. Then nothing is asked as another user.
    """

    name: str
    data: Mapping[str, Any]
    number: str
    deep: bool = False
    in_job: bool = False
    fact: NodeProbe = field(default_factory=NodeProbe)

    @cached_property
    def request(self) -> ProbeRequest:
        """What to ask."""
        request = request_of(self.data, self.deep)
        if not self.in_job:
            return request
        logins = is_of_caller(request)
        return replace(request, user="", trains_apart=False, sudo=False, logins=logins)

    @property
    def script(self) -> bytes:
        """What `COMMAND` reads from stdin."""
        node = "$SLURMD_NODENAME" if self.in_job else self.name
        head = beginning(node, self.number)
        if self.in_job:
            head = _NAMED + head + _JOB_ID
        lines = by_stdin(head + self.fact.script_for(self.request))
        return "".join(f"{line}\n" for line in lines).encode()

    @property
    def seconds(self) -> int:
        """The time limit of the probe."""
        return time_limit(self.fact.sections_for(self.request))

    def answer(self, carried: Carried) -> Answer:
        """Return what came back as the answer of the node, which was reached."""
        data = dict(self.data)
        try:
            text = self._text(carried)
            state = state_of(self._asked(carried), text.split("\n"), self.request)
        except ProbeError as error:
            return Answer(data, error=str(error), reached=True)
        except Exception as error:  # an error of one node must not end the others
            return Answer(data, error=f"not understood: {in_words(error)}", reached=True)
        job = _JOB.search(outside(text)[0]) if self.in_job else None
        return Answer(data, state, reached=True, slurm_job=int(job["id"]) if job else None)

    def _asked(self, carried: Carried) -> NodeProbe:
        self.fact.asked = self.fact.sections_for(self.request)
        self.fact.times = Times(carried.asked, carried.answered)
        return self.fact

    def _text(self, carried: Carried) -> str:
        """Return the text of the node's answer to this question. Raises ProbeError."""
        if carried.problem:
            raise ProbeError(carried.problem)
        if len(carried.out) > MOST_BYTES or carried.out.count(b"\n") > MOST_LINES:
            raise ProbeError(TOO_MUCH)
        text = carried.out.decode("utf-8", "replace")
        if self.in_job and _UNNAMED.search(outside(text)[0]):
            then = f"look for what removes it: srun --nodelist={self.name} env"
            allowed = "allowed: the variable that slurmd sets"
            raise ProbeError(f"found a job without SLURMD_NODENAME; {allowed}; next: {then}")
        whole(carried.code == 0, text.removesuffix("\n").split("\n"), carried.errors)
        stamp = STAMP.search(outside(text)[0])
        if stamp is None:
            raise ProbeError("its answer does not name the node; ask again")
        if stamp["node"] != self.name:
            raise ProbeError(f"it is the answer of {stamp['node']}")
        if stamp["digest"] != self.number:
            raise ProbeError("it is the answer to an earlier question")
        return text

"""The probe through ClusterShell, with its fanout; its tree of gateways is not used.

The library and not the `clush` command: a node gets a script that differs in a few lines, each
answer has a limit and its own time, and nothing is read from output meant for people. It runs in a
Python process of its own (`on_clustershell`), as gevent replaces here what its event loop uses.
"""

import base64
import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import IO, Any

import gevent
from gevent import subprocess
from gevent.pool import Pool

from gpu_node.facts.ask.gather import CONNECT_SECONDS, Answer
from gpu_node.facts.ask.offline import MOST_BYTES, MOST_LINES
from gpu_node.facts.ask.via import login
from gpu_node.facts.ask.via.processes import GRACE_SECONDS, with_parent
from gpu_node.facts.ask.via.question import COMMAND, NAME, TOO_MUCH, Carried, Question
from gpu_node.facts.probe.lines import lines_of

LIBRARY = "ClusterShell"
INSTALL = "pip install 'gpu-node[clustershell]'"
_CHILD = "gpu_node.facts.ask.via.on_clustershell"
_NO_NAME = "ClusterShell takes names of letters, digits, `.`, `_` and `-` alone"
# A line of the child is one answer, in base64.
_LONGEST_LINE = 3 * MOST_BYTES
# How many ssh print their settings side by side, for the jump hosts.
_WAYS = 16
# The command line of ssh for a node, or why there is none.
_Way = list[str] | ValueError


class NoClusterShell(Exception):
    """ClusterShell or ssh is not installed, or ended; str() is the reason, `then` the next step."""

    def __init__(self, why: str, then: str = INSTALL) -> None:
        super().__init__(why)
        self.then = then


def gather(questions: Sequence[Question], last: float) -> dict[str, Answer]:
    """Ask nodes through ClusterShell, by name in their order. Raises NoClusterShell."""
    if find_spec(LIBRARY) is None:
        raise NoClusterShell(f"no Python library {LIBRARY}")
    if shutil.which("ssh") is None:
        raise NoClusterShell("no program ssh in PATH", "install OpenSSH's client")
    named = [question for question in questions if NAME.fullmatch(question.name)]
    ways = dict(zip((each.name for each in named), Pool(_WAYS).map(_way, named), strict=True))
    asked = {each.name: each for each in named if not isinstance(ways[each.name], ValueError)}
    answers = {each.name: _answer(asked[each.name], each) for each in _carried(asked, ways, last)}
    return {
        question.name: answers.get(question.name)
        or Answer(dict(question.data), error=str(ways.get(question.name, _NO_NAME)))
        for question in questions
    }


def _way(question: Question) -> _Way:
    try:
        return login.words(question.name, question.data)
    except ValueError as error:
        return error


def _answer(question: Question, carried: Carried) -> Answer:
    """Return the answer of a node; without any of its output ssh may have had no session."""
    if carried.code == login.FAILED and not carried.reached:
        error = login.failure(carried.errors, question.data)
        return Answer(dict(question.data), error=str(error), cause=error)
    if carried.problem and not carried.reached:
        return Answer(dict(question.data), error=carried.problem)
    return question.answer(carried)


def _carried(
    questions: Mapping[str, Question], ways: Mapping[str, _Way], last: float
) -> Iterator[Carried]:
    """Run ClusterShell, and yield what it brings from each node."""
    if not questions:
        return
    process = subprocess.Popen(
        [sys.executable, "-m", _CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",  # -m looks for modules in the working directory first
        start_new_session=True,
        preexec_fn=with_parent,
    )
    errors: list[bytes] = []
    readers = [gevent.spawn(_give, process.stdin, _orders(questions.values(), ways, last))]
    readers.append(gevent.spawn(_keep, process.stderr, errors))
    try:
        for line in _lines(process.stdout):
            yield _read(line)
        code = process.wait(GRACE_SECONDS)
        gevent.joinall(readers, timeout=1)
    finally:
        if process.poll() is None:
            process.terminate()
        gevent.killall(readers)
    if code != 0:
        text = lines_of(b"".join(errors).decode("utf-8", "replace").strip())
        raise NoClusterShell(f"ClusterShell ended: {text[-1] if text else f'exit {code}'}")


def _orders(
    questions: Iterable[Question], ways: Mapping[str, _Way], last: float
) -> Iterator[bytes]:
    """Yield the lines of the child's stdin: what all nodes share, then one for each node."""
    first: dict[str, Any] = {
        "command": COMMAND,
        "connect": CONNECT_SECONDS,
        "most": MOST_BYTES,
        "most_lines": MOST_LINES,
        "too_much": TOO_MUCH,
        "last": last,
    }
    yield json.dumps(first).encode() + b"\n"
    for question in questions:
        node = {
            "name": question.name,
            "ssh": ways[question.name],
            "seconds": question.seconds,
            "script": question.script.decode(),
        }
        yield json.dumps(node).encode() + b"\n"


def _give(pipe: IO[bytes], lines: Iterator[bytes]) -> None:
    with suppress(OSError):  # its stderr has the reason
        for line in lines:
            pipe.write(line)
        pipe.close()


def _keep(pipe: IO[bytes], kept: list[bytes]) -> None:
    with suppress(OSError):
        while data := pipe.read(4096):
            kept[:] = [*kept[-15:], data]


def _lines(pipe: IO[bytes]) -> Iterator[bytes]:
    while line := pipe.readline(_LONGEST_LINE):
        yield line


def _read(line: bytes) -> Carried:
    fields: dict[str, Any] = json.loads(line)
    streams = {key: base64.b64decode(fields[key]) for key in ("out", "err")}
    return Carried(**{**fields, **streams})

"""The probe without a session: scripts that a site runs itself, and the answers it brings back.

A node without a way in from this machine, a queue or pdsh runs the same probe. Logins between the
nodes are not tried, and clocks are not compared: only a session shows when an answer was asked for.
"""

import hashlib
import re
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from gpu_node.facts.ask.gather import Answer
from gpu_node.facts.ask.session import ProbeError, state_of
from gpu_node.facts.node import NodeProbe, UnreadSection
from gpu_node.facts.probe.frame import MARK
from gpu_node.facts.probe.protocol import Section, render
from gpu_node.facts.probe.request import ProbeRequest, request_of
from gpu_node.facts.probe.shell import shell

SCRIPT_SUFFIX, ANSWER_SUFFIX = ".sh", ".txt"
# Seconds after which an answer is no longer the state of its node.
OLD_SECONDS = 24 * 3600
# As much as is read over SSH.
MOST_BYTES, MOST_LINES = 16 * 1024 * 1024, 500_000
# What the name of a node is made of: it is a word of a stamp, and the name of a file.
_LETTERS = "A-Za-z0-9._-"
# With its suffix it is the name of a file, which has at most 255 bytes.
LONGEST_NAME = 251
_NAME = f"[{_LETTERS}]{{1,{LONGEST_NAME}}}"
# To which question, by which node, when and on which machine an answer is.
STAMP = re.compile(
    rf"^{MARK} script (?P<digest>[0-9a-f]{{16}}) (?P<node>{_NAME}) "
    r"(?P<time>[0-9]{1,11}) (?P<host>\S{1,255}) (?P<boot>\S{1,64})$",
    re.MULTILINE,
)
_DONE = re.compile(rf"^{MARK} done$", re.MULTILINE)
_SECTION = re.compile(
    rf"^{MARK} begin (?P<name>\S+) \d{{1,9}} (?:raw|hex) (?P<length>\d{{1,12}})$",
    re.MULTILINE | re.ASCII,
)
_AGAIN = "run gpu-node probe, and its script on the node, again"


@dataclass(frozen=True)
class Script:
    """A script for nodes that are asked the same; `name` is its file's, without a suffix."""

    nodes: tuple[str, ...]
    probe: str
    version: str

    @property
    def name(self) -> str:
        """The first node that runs it."""
        return self.nodes[0]

    @cached_property
    def digest(self) -> str:
        """What stands for the questions: an answer to others is not read."""
        return hashlib.sha256(self.probe.encode()).hexdigest()[:16]

    @property
    def text(self) -> str:
        """The file: it prints to which questions, by which node and when an answer is."""
        alone = self.name if len(self.nodes) == 1 else ""
        head = (
            f"gpu-node {self.version}: prints what gpu-node drift --answers reads; it changes "
            "nothing."
        )
        return f"#!/bin/sh\n# {head}\n{beginning(alone, self.digest)}{self.probe}\n"


def beginning(node: str, digest: str) -> str:
    """Return the beginning of a script, which prints the stamp; `node` is an argument's default."""
    return shell("ask/offline", node=node, mark=MARK, digest=digest, other=f"[!{_LETTERS}]")


def is_usable(name: str) -> bool:
    """Whether a node of this name can have a script and an answer: a stamp and a file name it."""
    return re.fullmatch(_NAME, name) is not None and name not in (".", "..")


def scripts(hosts: Mapping[str, Mapping[str, Any]], version: str) -> list[Script]:
    """Return the scripts for hosts by name; nodes that are asked the same share one."""
    asked: dict[ProbeRequest, list[str]] = {}
    for name, request in _requests(hosts).items():
        asked.setdefault(request, []).append(name)
    rendered: dict[str, list[str]] = {}
    for request, names in asked.items():
        rendered.setdefault(_rendered(request), []).extend(names)
    return [Script(tuple(names), probe, version) for probe, names in rendered.items()]


def _requests(hosts: Mapping[str, Mapping[str, Any]]) -> dict[str, ProbeRequest]:
    """Return what to ask each host: without logins a node's own address decides nothing.

    Its port does, where the nodes have different ones.
    """
    requests = {name: request_of(dict(data)) for name, data in hosts.items()}
    ports = {peer.port for request in requests.values() for peer in request.nodes}
    less: dict[str, Any] = {"logins": False, **({"address": ""} if len(ports) <= 1 else {})}
    return {name: replace(request, **less) for name, request in requests.items()}


def _rendered(request: ProbeRequest) -> str:
    return render(NodeProbe().sections_for(request), sudo=request.sudo)


def answers(
    folder: Path,
    hosts: Mapping[str, dict[str, Any]],
    version: str,
    why_none: Callable[[str, str], str],
) -> dict[str, Answer]:
    """Return the answers in a folder, NODE.txt, by host name in the order of `hosts`.

    A node without a file is unreachable. A file that is no answer of its node to what would be
    asked today has no state, and the reason. `why_none` is that of a path which is no file, as in
    `regular_file`.
    """
    answer_of: dict[str, Answer] = {}
    machines: dict[tuple[str, str], list[str]] = {}
    for name, ask in _questions(hosts, version).items():
        data = hosts[name]
        try:
            # One after the other: all at the same time would fill the memory.
            text = _text(folder, name, ask.script, why_none)
            stamp = _stamp(text, name, ask.digest)
            answer_of[name] = Answer(data, _state(text, ask), reached=True)
        except _NoFile as error:
            answer_of[name] = Answer(data, error=str(error))
        except ProbeError as error:
            answer_of[name] = Answer(data, error=str(error), reached=True)
        else:
            if stamp["boot"] != "-":
                machines.setdefault((stamp["host"], stamp["boot"]), []).append(name)
    for (host, _), names in machines.items():
        for name in names if len(names) > 1 else ():
            answer_of[name] = _of_one_machine(answer_of[name], host, names[name == names[0]])
    return {name: answer_of[name] for name in hosts}


@dataclass(frozen=True)
class _Question:
    """What a node was to be asked; nodes with the same script share its sections."""

    request: ProbeRequest
    script: str
    digest: str
    sections: Sequence[Section]


def _questions(hosts: Mapping[str, Mapping[str, Any]], version: str) -> Mapping[str, _Question]:
    requests = _requests(hosts)
    questions = {}
    for script in scripts(hosts, version):
        sections = NodeProbe().sections_for(requests[script.name])
        for name in script.nodes:
            file = f"{script.name}{SCRIPT_SUFFIX}"
            questions[name] = _Question(requests[name], file, script.digest, sections)
    return questions


class _NoFile(Exception):
    """A node's file does not exist or is not read; str() is the reason and the next step."""


def _text(folder: Path, name: str, script: str, why_none: Callable[[str, str], str]) -> str:
    """Return the text of a node's file. Raises _NoFile, and ProbeError for more than is read."""
    file = folder / f"{name}{ANSWER_SUFFIX}"
    then = f"on the node, sh {script} {name} >{file.name}"
    if why := why_none(str(file), ""):  # a pipe would wait for a writer
        raise _NoFile(_unread(file, why, then))
    try:
        with file.open("rb") as opened:
            data = opened.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise _NoFile(f"found no file {file}; next: {then}") from None
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise _NoFile(_unread(file, why, f"chmod or chown {shlex.quote(str(file))}")) from error
    if len(data) > MOST_BYTES:
        raise ProbeError(f"its answer has more than {MOST_BYTES // 1024 // 1024} MiB")
    if data.count(b"\n") > MOST_LINES:
        raise ProbeError(f"its answer has more than {MOST_LINES} lines")
    return data.decode("utf-8", "replace").replace("\r\n", "\n")


def _unread(file: Path, why: str, then: str) -> str:
    return f"found {why} (cannot read {file}); allowed: a file; next: {then}"


def _state(text: str, question: _Question) -> Any:
    fact = NodeProbe()
    fact.asked = question.sections
    return state_of(fact, text.split("\n"), question.request)


def outside(text: str) -> list[str]:
    """Return the parts of an answer before, between and after its sections.

    What a section prints may be a user's text: a mark in it counts for nothing.
    """
    parts, position = [], 0
    while begin := _SECTION.search(text, position):
        parts.append(text[position : begin.start()])
        stop = begin.end() + 1 + int(begin["length"])
        is_whole = text.startswith(f"\n{MARK} end {begin['name']}", stop)
        # Of one that is cut off the rest is its text; a length that is wrong has no meaning.
        position = stop if is_whole or stop > len(text) else begin.end()
    return [*parts, text[position:]]


def _stamp(text: str, name: str, digest: str) -> re.Match[str]:
    """Return the stamp of a node's answer to the script with this digest. Raises ProbeError."""
    parts = outside(text)
    stamps = list(islice((each for part in parts for each in STAMP.finditer(part)), 2))
    if not stamps:
        raise ProbeError("found no answer to a script of gpu-node probe; next: run it on the node")
    if stamps[1:] or STAMP.search(parts[0]) is None:
        raise ProbeError(f"it holds more than one answer; next: {_AGAIN}, with > NODE.txt")
    (stamp,) = stamps
    if stamp["node"] != name:
        raise ProbeError(f"it is the answer of {stamp['node']}; next: keep it as its file")
    if stamp["digest"] != digest:
        raise ProbeError(f"it answers another inventory or version of gpu-node; next: {_AGAIN}")
    hours = (time.time() - int(stamp["time"])) / 3600
    if abs(hours) * 3600 > OLD_SECONDS:
        when = f"{hours:.0f} hours old" if hours > 0 else f"{-hours:.0f} hours ahead"
        allowed = f"allowed: at most {OLD_SECONDS // 3600} hours"
        raise ProbeError(f"it is {when} by the clock of the node; {allowed}; next: {_AGAIN}")
    if _DONE.search(parts[-1]) is None:
        raise ProbeError(f"it was cut off before its end; next: {_AGAIN}")
    return stamp


def _of_one_machine(answer: Answer, host: str, other: str) -> Answer:
    """Add to an answer that the one of another node names the same machine.

    One of the two is not about its node, or lies; which one is unknown.
    """
    reason = (
        f"the answer of {other} names the same machine, {host}; next: run each script on its node"
    )
    clash = UnreadSection(area="host", section="host.machine", reason=reason)
    assert answer.state is not None
    unread = (*answer.state.unreadable, clash)
    return replace(answer, state=answer.state.model_copy(update={"unreadable": unread}))

"""What users' own lines set on a node, in every place that a process may get it from."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from gpu_node.drift.network.ifname import CONF, conf_settings
from gpu_node.facts.env.start_files import BLOCKS, Setting
from gpu_node.facts.env.state import EnvState, Line
from gpu_node.facts.node import NodeState

DEEPSPEED = "~/.deepspeed_env"
# Where a value is seen that no line shows.
SESSION = "what `ssh NODE command` has"


def everywhere(found: NodeState) -> Iterator[Setting]:
    """Yield what lines that are not ours set: start files, NCCL's files, DeepSpeed's."""
    yield from _start_files(found.env)
    ours = our_conf_lines(found.env)
    yield from (each for each in conf_settings(found) if each.path != CONF or each.line not in ours)
    yield from _sent(found.env)


def exported(found: EnvState) -> Iterator[Setting]:
    """Yield what lines that are not ours put into an environment that a launcher may hand on.

    What only NCCL itself reads, from its own files, is not among it.
    """
    yield from _start_files(found)
    yield from _sent(found)


def of_session(found: NodeState, but: Collection[str] = ()) -> Iterator[Setting]:
    """Yield what a launcher's session has and no line that was looked at sets, less some names."""
    if found.env.settings is None:
        return
    for name, value in (found.env.launcher or {}).items():
        if name not in but and not _naming(found, name):
            yield Setting(path=SESSION, line=0, name=name, value=value)


def computed(found: NodeState, but: Collection[str] = ()) -> Iterator[Setting]:
    """Yield what a launcher's session has of the names whose every line leaves the value open."""
    for name, value in (found.env.launcher or {}).items():
        lines = _naming(found, name)
        if name not in but and lines and not any(each.is_plain for each in lines):
            yield Setting(path=SESSION, line=0, name=name, value=value)


def _naming(found: NodeState, name: str) -> list[Setting]:
    """Return the lines that name a variable, of start files: ours as well, and all others."""
    lines = [*(found.env.settings or ()), *everywhere(found)]
    return [each for each in lines if each.name == name]


def _start_files(found: EnvState) -> Iterator[Setting]:
    return (each for each in found.settings or () if not each.ours)


def _sent(found: EnvState) -> Iterator[Setting]:
    """Yield what DeepSpeed's launcher sends to all nodes from its own file."""
    for line in found.conf or ():
        name, equals, value = line.text.partition("=")
        if line.path == DEEPSPEED and equals and not name.startswith("#"):
            yield Setting(path=line.path, line=line.line, name=name, value=value)


def our_conf_lines(found: EnvState) -> set[int]:
    """Return the numbers of the lines of /etc/nccl.conf that we wrote."""
    text = conf_text(found)
    numbers: set[int] = set()
    first, place = 1, 0
    for block in BLOCKS.find(text):
        first, place = first + text.count("\n", place, block.start), block.start
        numbers |= set(range(first, first + block.text.count("\n")))
    return numbers


def conf_text(found: EnvState) -> str:
    """Return /etc/nccl.conf as far as it was read: bytes that are not ASCII are ?."""
    return "".join(f"{each.text}\n" for each in found.conf or () if each.path == CONF)


def conf_lines(found: EnvState) -> list[Line]:
    """Return the lines of NCCL's and DeepSpeed's files that we did not write."""
    ours = our_conf_lines(found)
    return [each for each in found.conf or () if each.path != CONF or each.line not in ours]

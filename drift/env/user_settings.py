"""What users' own lines set on a node, in every place that a process may get it from."""

from collections.abc import Collection, Iterator

from gpu_node.drift.engine.finding import Who
from gpu_node.drift.network.ifname import CONF, conf_settings
from gpu_node.facts.env.start_files import BLOCKS, Setting
from gpu_node.facts.env.state import EnvState, Line
from gpu_node.facts.node import NodeState

DEEPSPEED = "~/.deepspeed_env"
# Where a value is seen that no line shows.
SESSION = "what `ssh NODE command` has"
# How a setting that no start file of the user has is removed.
REMOVE_ITS_SOURCE = (
    "find what sets it (a file that ~/.bashrc reads, sshd's SetEnv, PAM), and remove it"
)


def editor(path: str) -> Who:
    """Return who edits a file that sets a variable: of ~/.bashrc the user, of /etc root."""
    return "administrator" if path.startswith("/") else "user"


def everywhere(state: NodeState) -> Iterator[Setting]:
    """Yield what lines that are not ours set: start files, NCCL's files, DeepSpeed's."""
    yield from _start_files(state.env)
    ours = our_conf_lines(state.env)
    yield from (
        setting
        for setting in conf_settings(state)
        if setting.path != CONF or setting.line not in ours
    )
    yield from _sent(state.env)


def exported(state: EnvState) -> Iterator[Setting]:
    """Yield what lines that are not ours put into an environment that a launcher may hand on.

    What only NCCL itself reads, from its own files, is not among it.
    """
    yield from _start_files(state)
    yield from _sent(state)


def of_session(state: NodeState, but: Collection[str] = ()) -> Iterator[Setting]:
    """Yield what a launcher's session has and no line that was looked at sets, less some names."""
    if state.env.settings is None:
        return
    for name, value in (state.env.launcher or {}).items():
        if name not in but and not _naming(state, name):
            yield Setting(path=SESSION, line=0, name=name, value=value)


def computed(state: NodeState, but: Collection[str] = ()) -> Iterator[Setting]:
    """Yield what a launcher's session has of the names whose every line leaves the value open."""
    for name, value in (state.env.launcher or {}).items():
        lines = _naming(state, name)
        if name not in but and lines and not any(line.is_plain for line in lines):
            yield Setting(path=SESSION, line=0, name=name, value=value)


def _naming(state: NodeState, name: str) -> list[Setting]:
    """Return the lines that name a variable, of start files: ours as well, and all others."""
    lines = [*(state.env.settings or ()), *everywhere(state)]
    return [line for line in lines if line.name == name]


def _start_files(state: EnvState) -> Iterator[Setting]:
    return (setting for setting in state.settings or () if not setting.ours)


def _sent(state: EnvState) -> Iterator[Setting]:
    """Yield what DeepSpeed's launcher sends to all nodes from its own file."""
    for line in state.conf or ():
        name, equals, value = line.text.partition("=")
        if line.path == DEEPSPEED and equals and not name.startswith("#"):
            yield Setting(path=line.path, line=line.line, name=name, value=value)


def our_conf_lines(state: EnvState) -> set[int]:
    """Return the numbers of the lines of /etc/nccl.conf that we wrote."""
    text = conf_text(state)
    numbers: set[int] = set()
    first, place = 1, 0
    for block in BLOCKS.find(text):
        first, place = first + text.count("\n", place, block.start), block.start
        numbers |= set(range(first, first + block.text.count("\n")))
    return numbers


def conf_text(state: EnvState) -> str:
    """Return /etc/nccl.conf as far as it was read: bytes that are not ASCII are ?."""
    return "".join(f"{each.text}\n" for each in state.conf or () if each.path == CONF)


def conf_lines(state: EnvState) -> list[Line]:
    """Return the lines of NCCL's and DeepSpeed's files that we did not write."""
    ours = our_conf_lines(state)
    return [each for each in state.conf or () if each.path != CONF or each.line not in ours]

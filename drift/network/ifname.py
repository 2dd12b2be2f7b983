"""NCCL_SOCKET_IFNAME on a node: what is wanted, what a process would get in each place, and why."""

from collections.abc import Iterator
from dataclasses import dataclass

from gpu_node.drift.env.bashrc import (
    BASHRC,
    SHARED,
    Blocks,
    Values,
    are_placed,
    body,
    deciding,
    env_file_text,
    is_network_home,
    last_value,
    users_lines,
)
from gpu_node.drift.nccl.libnccl import environments, own
from gpu_node.drift.network.interfaces import (
    AUTO,
    Choice,
    Version,
    candidates,
    choose,
    is_unset,
    selected,
)
from gpu_node.facts.env.start_files import Setting
from gpu_node.facts.env.state import EnvState, Line
from gpu_node.facts.nccl.state import NcclState, shown
from gpu_node.facts.node import NodeState
from gpu_node.inventories.fields.kinds import IFNAME
from gpu_node.inventories.versions import numbers
from gpu_node.inventories.wanted import NetworkWanted, NodeWanted

CONF = "/etc/nccl.conf"
SHELL, INTERACTIVE = f"{IFNAME} in a launcher's shell", f"{IFNAME} in an interactive shell"
# Since when NCCL_CONF_FILE is read, in the place of ~/.nccl.conf.
_CONF_FILE_SINCE = (2, 23, 4)


def versions(state: NcclState) -> list[Version]:
    """Return the NCCL versions in use: those that torch loads, else the system's; oldest first."""
    loaded = {each.loaded.version for _, each in environments(state) if each.loaded}
    loaded_versions = {shown(version) for version in loaded if version}
    loaded_versions |= (
        set() if loaded_versions else {each.version.partition("-")[0] for each in own(state)}
    )
    return sorted(filter(None, map(numbers, loaded_versions)))


def oldest(state: NodeState) -> Version | None:
    """Return the oldest NCCL in use; None where none was found."""
    return next(iter(versions(state.nccl)), None)


def is_deepspeed(wanted: NodeWanted) -> bool:
    """Whether DeepSpeed starts the jobs: it sends the launching shell's NCCL* to every node."""
    return wanted.launcher is not None and wanted.launcher.kind == "deepspeed"


def may_be_deepspeed(state: NodeState, wanted: NodeWanted) -> bool:
    """Whether DeepSpeed may start the jobs: it is installed, and no launcher is named."""
    is_open = wanted.launcher is None or wanted.launcher.kind is None
    environments = state.nccl.environments.values()
    return is_open and any(each and "deepspeed" in each.packages for each in environments)


def is_in_nccl_conf_alone(state: NodeState, wanted: NodeWanted) -> bool:
    """Whether no shell is to have the interface: NCCL's own file, of each node, names it.

    DeepSpeed sends a shell's to every node, and of a home that is shared each node is not alone.
    """
    return is_deepspeed(wanted) or is_network_home(state.env) or is_left_to_conf(state, wanted)


def is_left_to_conf(state: NodeState, wanted: NodeWanted) -> bool:
    """Whether the shell is not given the interface because DeepSpeed may send it to every node.

    A value that is right here stays: network.launcher-override judges it by the other nodes.
    """
    name = chosen(state, wanted).name
    if name is None or state.env.launcher is None or not may_be_deepspeed(state, wanted):
        return False
    return not is_right(state, IFNAME, state.env.launcher.get(IFNAME), f"={name}")


def chosen(state: NodeState, wanted: NodeWanted) -> Choice:
    """Return the interface this node should train over."""
    if wanted.network is None:
        return Choice(None, "the inventory does not manage it", known=False)
    return choose(state.network, wanted.network, wanted.address)


def carrier(state: NodeState, wanted: NodeWanted) -> Choice:
    """Return the interface to train over; where the inventory names none, that of the address."""
    return choose(state.network, wanted.network or NetworkWanted(interface=AUTO), wanted.address)


def managed(state: NodeState, wanted: NodeWanted) -> Values | None:
    """Return what ~/.bashrc should say of each variable; None where that is not known."""
    values: dict[str, str | None] = {}
    if wanted.network is not None:
        name, no_shell = chosen(state, wanted).name, is_in_nccl_conf_alone(state, wanted)
        if name is None and not no_shell:
            return None
        values[IFNAME] = None if no_shell else f"={name}"
    return {**values, **(wanted.env or {})}


def is_right(state: NodeState, name: str, value: str | None, expected: str | None) -> bool:
    """Whether a value is as good as the wanted one: an interface can be named in several ways."""
    if expected is None or value is None:
        return is_unset(value) if expected is None else False
    if name != IFNAME:
        return value == expected
    names = candidates(state.network, oldest(state))
    return not is_unset(value) and selected(value, names) == [expected.removeprefix("=")]


def wanted_blocks(state: NodeState, values: Values) -> Blocks:
    """Return the blocks ~/.bashrc needs: the last one for what the user's lines set otherwise."""
    if is_network_home(state.env):
        return SHARED
    again = {
        line.name
        for line in users_lines(state.env)
        if line.name in values
        and not (line.is_plain and is_right(state, line.name, line.value, values[line.name]))
    }
    return Blocks(
        body(values), body({name: value for name, value in values.items() if name in again})
    )


def is_written(state: NodeState, values: Values) -> bool:
    """Whether ~/.bashrc, and the file that it may read, say what is wanted where it counts."""
    placed = are_placed(state.env, wanted_blocks(state, values))
    return placed and (
        not is_network_home(state.env) or state.env.env_file == env_file_text(values)
    )


def obstacle(state: EnvState) -> str | None:
    """Return why no block in ~/.bashrc would help; None where it would, or that is not known."""
    if state.user is not None and not state.user.shell.endswith("/bash"):
        shell = state.user.shell
        return (
            f"the login shell is {shell}, which does not read {BASHRC}: set it in a file that this "
            "shell reads"
        )
    return None


def manual_fix(node: NodeState, values: Values | None, name: str) -> str | None:
    """Return what a person has to do about a variable of a shell; None where the deploy does it."""
    state = node.env
    if values is None:
        return "name the interface: network: {interface: NAME} in the inventory"
    # A home in an unknown place may be shared with other nodes.
    if None in (state.bashrc, state.settings, state.user, state.places):
        return "first repair what could not be read, see env.unreadable"
    if reason := obstacle(state):
        return reason
    if not is_written(node, values):
        return None
    line = deciding(state, name)
    if line is not None:
        return f"remove the line {line.place}, which follows gpu-node's block"
    return f"find what sets it after gpu-node's block in {BASHRC}: a file that is read there"


@dataclass(frozen=True)
class Place:
    """Where a process gets its value from: a shell, or NCCL's files; `origin` is the line."""

    name: str
    value: str | None
    origin: str = ""
    # What a person has to do; None where the deploy does it.
    hand: str | None = None


def places(state: NodeState, wanted: NodeWanted) -> Iterator[Place]:
    """Yield where NCCL_SOCKET_IFNAME comes from on a node, as far as that is known."""
    values = managed(state, wanted)
    if not is_deepspeed(wanted):
        entries = shell_places(state, values)
        no_shell = is_in_nccl_conf_alone(state, wanted)
        yield from (entry for entry in entries if entry.value or not no_shell)
    if state.env.conf is not None:
        yield from _conf_places(state)


def shell_places(node: NodeState, values: Values | None) -> Iterator[Place]:
    """Yield what the shells have: the launcher's, and an interactive one where that is another."""
    state = node.env
    if state.launcher is None:
        return
    hand = manual_fix(node, values, IFNAME)
    value, line = state.launcher.get(IFNAME), deciding(state, IFNAME)
    origin = line.place if line is not None and line.value == value else ""
    yield Place(SHELL, value, origin, hand)
    last = last_value(state, IFNAME)
    if last is not None and not last.ours and last.is_plain and last.value != value:
        yield Place(INTERACTIVE, last.value, last.place, hand)


def conf_settings(state: NodeState) -> list[Setting]:
    """Return what NCCL's files set, in NCCL's order: of a name given twice the first counts."""
    first = (state.env.launcher or {}).get("NCCL_CONF_FILE", "")
    version = oldest(state)
    if not first or (version is not None and version < _CONF_FILE_SINCE):
        first = "~/.nccl.conf"
    home = state.env.user.home if state.env.user else ""
    if home and first.startswith(f"{home}/"):
        first = f"~{first.removeprefix(home)}"
    lines = state.env.conf or ()
    paths = dict.fromkeys((first, CONF))
    ordered = [line for path in paths for line in lines if line.path == path]
    return [setting for each in ordered if (setting := _conf_setting(each)) is not None]


def _conf_setting(line: Line) -> Setting | None:
    name, equals, value = line.text.partition("=")
    if not equals or name.startswith("#"):
        return None
    return Setting(path=line.path, line=line.line, name=name, value=value)


def _conf_places(state: NodeState) -> Iterator[Place]:
    """Yield NCCL's files: the user's own, where it names one, and the system's, which is written.

    /etc/nccl.conf counts for users without a file, and once that line is removed.
    """
    entries = [setting for setting in conf_settings(state) if setting.name == IFNAME]
    if entries and entries[0].path != CONF:
        first = entries[0]
        hand = f"remove the line {first.place}, which NCCL reads before {CONF}"
        yield Place(first.path, first.value, first.place, hand)
    line = next((entry for entry in entries if entry.path == CONF), None)
    yield Place(CONF, line.value, line.place) if line else Place(CONF, None)

"""Our blocks of ~/.bashrc: what they say, where they stand, and the same of /etc/nccl.conf."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gpu_node.facts.env.start_files import BLOCKS, READ_ENV_FILE, Setting
from gpu_node.facts.env.state import EnvState
from gpu_node.facts.probe.file_systems import is_network
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.managed_block import outside

BASHRC = "~/.bashrc"
# What is wanted of each variable: a value, or None where it is to be taken out.
Values = Mapping[str, str | None]
_SAYS = "written by every run from the inventory: edit that, not this"
# In front of our last block, where the file had no newline at its end: it goes with the block.
_GAP = " (the file had no newline at its end)"
_NAMES = re.compile(r"^(?:export|unset) (\w+)", re.ASCII | re.MULTILINE)
_TOP, _LAST = f": {_SAYS}", ", once more below what was set above"


@dataclass(frozen=True)
class Blocks:
    """What our blocks say: the one at the top, and the one at the end; empty for none."""

    top: str = ""
    end: str = ""


# The same from every node, and whatever a node wants: in a shared home each would else undo what
# another one has written.
SHARED = Blocks(top=f"{READ_ENV_FILE}\n", end=f"{READ_ENV_FILE}\n")


def is_network_home(state: EnvState) -> bool:
    """Whether ~/.bashrc lies where it may be another node's, too: its file system is no disk's."""
    return state.user is not None and any(
        is_network(state.places, path) for path in (state.user.home, f"{state.user.home}/.bashrc")
    )


def env_file_text(values: Values) -> str:
    """Return the text of the file that holds a node's own variables, where its home is shared."""
    return f"# {_SAYS.capitalize()}.\n{body(values)}"


def body(values: Values) -> str:
    """Return the lines of a block, for any shell of the Bourne family."""
    return "".join(
        f"unset {name}\n" if value is None else f"export {name}={_quoted(value)}\n"
        for name, value in values.items()
    )


def _quoted(value: str) -> str:
    """Quote always: zsh would expand a value that begins with =."""
    return "'" + value.replace("'", "'\\''") + "'"


def with_blocks(text: str, blocks: Blocks) -> str:
    """Return a start file's text with these blocks of ours and no others; all else stays."""
    own = without_blocks(text)
    top = BLOCKS.block(blocks.top, _TOP)
    if not blocks.end:
        return top + own
    gap = "" if own.endswith("\n") or not own else "\n"
    return f"{top}{own}{gap}{BLOCKS.block(blocks.end, _GAP if gap else _LAST)}"


def without_blocks(text: str) -> str:
    """Return a file's text as it would be had we never written into it."""
    blocks = BLOCKS.find(text)
    own = "".join(outside(text, blocks))
    has_gap = bool(blocks) and blocks[-1].text.startswith(BLOCKS.begin + _GAP)
    return own.removesuffix("\n") if has_gap and blocks[-1].end == len(text) else own


def with_conf(text: str, lines: str) -> str:
    """Return nccl.conf's text with our lines first: of a name given twice the first counts."""
    return with_blocks(text, Blocks(top=lines))


def inside(block: str) -> str:
    """Return what a block says between its marks."""
    return "".join(f"{line}\n" for line in lines_of(block)[1:-1])


def users_lines(state: EnvState) -> list[Setting]:
    """Return what ~/.bashrc sets by lines that are not ours."""
    return [
        setting for setting in state.settings or () if setting.path == BASHRC and not setting.ours
    ]


def remove_first(state: EnvState, name: str, value: str) -> str:
    """Begin the advice to set a variable: a later line with another value has the last word."""
    lines = (each for each in users_lines(state) if each.name == name and each.value != value)
    others = ", ".join(each.place for each in lines)
    # Before a new line changes their numbers.
    return f"remove the line {others}, then " if others else ""


def are_placed(state: EnvState, blocks: Blocks) -> bool:
    """Whether ~/.bashrc has these blocks, where they count, and no others of ours."""
    assert state.bashrc is not None
    there = state.bashrc.blocks
    expected = [each for each in (blocks.top, blocks.end) if each]
    if [inside(each.text) for each in there] != expected:
        return False
    if not there:
        return True
    reached = state.bashrc.returns is None or there[0].first < state.bashrc.returns
    # A block that reads a file has no names: any line may set what that does.
    names = _NAMES.findall(blocks.end)
    above = [line.line for line in users_lines(state) if line.name in names or not names]
    last = max(above, default=0)
    return reached and (not blocks.end or there[-1].first > last)


def last_value(state: EnvState, name: str) -> Setting | None:
    """Return the line of ~/.bashrc that decides for a shell that reads all of it."""
    lines = [
        setting
        for setting in state.settings or ()
        if setting.path == BASHRC and setting.name == name
    ]
    return max(lines, key=lambda each: each.line, default=None)


def deciding(state: EnvState, name: str) -> Setting | None:
    """Return the user's line that decides for a shell without a terminal, if one can be seen."""
    returns = state.bashrc.returns if state.bashrc else None
    reached = [
        line
        for line in users_lines(state)
        if line.name == name and (returns is None or line.line < returns)
    ]
    if reached:
        return reached[-1]
    # Of the others a later file wins: PAM's, then the profile's; the order of the section.
    others = [
        setting for setting in state.settings or () if setting.name == name and not setting.ours
    ]
    return next((other for other in reversed(others) if other.path.startswith("/etc/")), None)

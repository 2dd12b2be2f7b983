"""Lines that set variables: sh that sends them, how programs read them, and which are ours.

Only the relevant part of each line leaves the node: the names that are searched for with their
values, and the shell's words that show whether they stay set. All other words are blanked.
"""

import re
import shlex

from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.managed_block import Markers
from gpu_node.facts.probe.redaction import HIDDEN
from gpu_node.facts.probe.shell import USERS_FILE, shell

_LONGEST = 8192
# Variables of NCCL with the path of a file that it reads; of a plugin it may be a name alone.
READ_FILES = (
    *("NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_CONF_FILE", "NCCL_TUNER_CONFIG_FILE"),
    *("NCCL_NET_PLUGIN", "NCCL_TUNER_PLUGIN", "NCCL_PROFILER_PLUGIN", "NCCL_ENV_PLUGIN"),
)
# For Section.shared.
LINES = ("gn_lines", shell("env/setting_lines.awk", hidden=HIDDEN, longest=_LONGEST))
BASHRC = USERS_FILE + shell("env/bashrc", hidden=HIDDEN)
SETTINGS = USERS_FILE + shell("env/settings")
CONF = USERS_FILE + shell("env/conf", files=" ".join(READ_FILES))

# If nodes share a home, its start file is the same for all: it reads this file of the node itself.
ENV_FILE = "/etc/gpu-node/env.sh"
READ_ENV_FILE = f"[ ! -r {ENV_FILE} ] || . {ENV_FILE}"
# Our block of a file; it contains only lines that we write.
BLOCKS = Markers(
    "# >>> gpu-node",
    "# <<< gpu-node",
    line=rf"#|export |unset |[A-Z][A-Za-z0-9_]*=|{re.escape(READ_ENV_FILE)}$",
    has_remark=True,
)
# What launchers, NCCL, PyTorch and their libraries read; other names are ignored.
PREFIXES = (
    *("NCCL_", "TORCH_", "ENABLE_NCCL_", "GLOO_", "TP_SOCKET_", "UCX_", "CUDA_", "OMP_", "MKL_"),
    *("LOGLEVEL", "DS_"),
)
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_DECLARING = ("export", "declare", "typeset", "readonly")
_PAM = ("/etc/environment", "~/.pam_environment")
# pam_env's syntax: a name and one or two values; the second one counts unless it is empty.
_OF_PAM = re.compile(r"\s*(\w+)\s+(?:DEFAULT|OVERRIDE)=")
_PAM_VALUE = re.compile(r'(?<!\S)(DEFAULT|OVERRIDE)=("[^"]*"|\S*)')


class Setting(State):
    """A line that sets a variable, or unsets it (`value` is None); `ours`: it is in our block."""

    path: str
    line: int
    name: str
    value: str | None
    ours: bool = False

    @property
    def place(self) -> str:
        """File and line, in the form that editors accept."""
        return f"{self.path}:{self.line}"

    @property
    def is_plain(self) -> bool:
        """Whether the value is literal: neither a shell nor PAM computes any part of it."""
        of_pam = self.path == _PAM[1] and "@{" in (self.value or "")
        return self.value is None or not (of_pam or re.search(r"[$`]", self.value))


def is_of_interest(name: str) -> bool:
    """Whether one of the libraries or launchers may read a variable of that name."""
    return name.startswith(PREFIXES)


def assignments(path: str, text: str) -> list[tuple[str, str | None]]:
    """Return the variables that a line of a start file sets and that stay set, in order."""
    if path == _PAM[1] and (match := _OF_PAM.match(text)):
        pairs = _PAM_VALUE.findall(text[match.end(1) :])
        values = {key: value.strip("\"'") for key, value in pairs}
        return [(match[1], values.get("OVERRIDE") or values.get("DEFAULT", ""))]
    if path in _PAM:
        match = _ASSIGNMENT.match(text.partition("#")[0].strip().removeprefix("export "))
        return [(match[1], match[2].strip("\"'"))] if match else []
    if len(text) > MOST_OF_A_LINE:  # the time of shlex grows with the square of a word's length
        raise ValueError(f"{path} has a line of {len(text)} characters")
    commands = _commands(text)
    return [each for command in commands for each in _set_by(command)]


def _commands(text: str) -> list[list[str]]:
    """Return the simple commands of a line of shell, as words; a CR is an ordinary character."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|(){}")
    lexer.whitespace, lexer.whitespace_split = " \t\n", True
    commands: list[list[str]] = [[]]
    try:
        for word in lexer:
            if word and not word.strip(";&|(){}"):
                commands.append([])
            else:
                commands[-1].append(word)
    except ValueError:  # a quote that another line closes
        match = re.match(r"\s*(?:export\s+)?(\w+=\S*)", text)
        return [["export", match[1].replace('"', "").replace("'", "")]] if match else []
    return commands


def _set_by(command: list[str]) -> list[tuple[str, str | None]]:
    """Return what a simple command sets; `NAME=value program` sets nothing that stays."""
    words = command[1:] if command[:1] and command[0] in ("then", "else", "do", "!") else command
    if words[:1] == ["unset"]:
        return [(word, None) for word in words[1:] if not word.startswith("-")]
    if words and words[0] in _DECLARING:
        words = words[1:]
        pairs = [_ASSIGNMENT.fullmatch(word) for word in words]
        return [(pair[1], pair[2]) for pair in pairs if pair]
    pairs = [_ASSIGNMENT.fullmatch(word) for word in words]
    return [(pair[1], pair[2]) for pair in pairs if pair] if all(pairs) else []


# More lines than a start file has, or than our blocks in it have.
MOST_LINES, MOST_OF_OURS = 100_000, 1000
# More characters than a line that sets a variable has.
MOST_OF_A_LINE = 16_384


class Block(State):
    """A part of a file that we wrote: its first line, its last line, and its text."""

    first: int
    last: int
    text: str


class StartFile(State):
    """~/.bashrc: our blocks in it, and the line at which a shell without a terminal returns."""

    exists: bool
    lines: int
    blocks: tuple[Block, ...]
    returns: int | None


def parse_start_file(text: str) -> StartFile:
    """Parse `NUMBER<tab>line` for the relevant lines, and `lines<tab>COUNT` at the end."""
    rows = [line.split("\t", 1) for line in text.split("\n") if "\t" in line]
    if text.strip() == "absent":
        return StartFile(exists=False, lines=0, blocks=(), returns=None)
    if not rows or rows[-1][0] != "lines":
        raise ValueError("its end is missing")
    numbered = [(int(number), line) for number, line in rows[:-1]]
    numbers = [number for number, _ in numbered]
    if numbers != sorted(set(numbers)) or (numbers and not 0 < numbers[-1] <= MOST_LINES):
        raise ValueError(f"its lines are not in order, or more than {MOST_LINES}")
    blocks = tuple(_blocks(numbered))
    if sum(each.text.count("\n") for each in blocks) > MOST_OF_OURS:
        raise ValueError(f"more than {MOST_OF_OURS} lines in gpu-node's blocks")
    ours = {line for block in blocks for line in range(block.first, block.last + 1)}
    others = [(number, line) for number, line in numbered if number not in ours]
    count = int(rows[-1][1])
    return StartFile(exists=True, lines=count, blocks=blocks, returns=_returns(others))


def _blocks(numbered: list[tuple[int, str]]) -> list[Block]:
    text = "".join(f"{line}\n" for _, line in numbered)
    blocks = []
    index = place = 0
    for block in BLOCKS.find(text):
        index, count = index + text.count("\n", place, block.start), block.text.count("\n")
        place = block.start
        first, last = numbered[index][0], numbered[index + count - 1][0]
        blocks.append(Block(first=first, last=last, text=block.text))
    return blocks


# How a start file tests for an interactive shell, and how many lines below it may return.
_ASKS = re.compile(r"\$-|PS1|(?<!\S)-t [01]|\btty\b")
_LEAVES = re.compile(r"(?<![\w-])(return|exit)(?![\w-])")
_NEAR = 4


def _returns(numbered: list[tuple[int, str]]) -> int | None:
    """Return the first line at which a shell without a terminal returns."""
    asked: int | None = None
    for number, line in numbered:
        code = line.strip()
        if code.startswith("#"):
            continue
        if _ASKS.search(code):
            asked = number
        if _LEAVES.search(code) and asked is not None and number - asked <= _NEAR:
            return number
    return None

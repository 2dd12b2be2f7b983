"""Lint of users' lines: names nobody reads, old names, values that are none, debugging left on."""

from __future__ import annotations

from collections.abc import Iterator

from drift.ifname import CONF, oldest
from drift.libnccl import environments
from drift.rules.rule import Fault, rule
from drift.users_settings import DEEPSPEED, conf_lines, everywhere
from drift.variables import (
    Version,
    is_debug,
    is_unknown,
    misread,
    outdated,
    suggestion,
)
from facts.env import Line
from facts.node import NodeState
from facts.start_files import Setting
from inventories.schema import NodeWanted

_INVENTORY = "the inventory"
_NO_CR_SINCE = (2, 30, 3)
_QUOTES = "\"' \t\r"


def _lines(found: NodeState, wanted: NodeWanted) -> Iterator[Setting]:
    """Yield each setting of users' lines and of the inventory's `env`; none where it has no env."""
    if wanted.env is None:
        return
    yield from everywhere(found)
    for name, value in wanted.env.items():
        yield Setting(path=_INVENTORY, line=0, name=name, value=value)


def _where(each: Setting) -> str:
    return each.path if each.path == _INVENTORY else each.place


def _fault(each: Setting, found: str, wanted: str, cause: str, fix: str) -> Fault:
    return Fault(f"{each.name} ({_where(each)})", found, wanted, cause, fix, fixable=False)


@rule("env.unknown-variable", "warning", whole=True)
def unknown_variable(found: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """A variable looks like NCCL's or PyTorch's, and neither reads one of that name."""
    for each in _lines(found, wanted):
        if is_unknown(each.name):
            meant = suggestion(each.name)
            said = f"did you mean {meant}? " if meant else ""
            fix = f"{said}Correct the name in {_where(each)}, or take the line out"
            cause = "a name that nobody reads does nothing, without a word"
            yield _fault(
                each, f"no variable of that name: {each.name}", meant or "none", cause, fix
            )


@rule("env.deprecated", "warning", whole=True)
def deprecated(found: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """A variable has another name by now, is read no more, or not yet by the NCCL in use."""
    nccl, torch = oldest(found), _torch(found)
    for each in _lines(found, wanted):
        if why := outdated(each.name, nccl, torch):
            cause = "it does nothing, or only until the next release of the library"
            fix = f"write what is read in its place into {_where(each)}, or take the line out"
            yield _fault(each, why, "a name that is read", cause, fix)


def _torch(found: NodeState) -> Version | None:
    """The oldest torch of the environments; None where none could be read."""
    told = [each.torch.version for _, each in environments(found.nccl) if each.torch]
    numbers = [version.partition("+")[0].split(".")[:2] for version in told]
    return min(
        (tuple(map(int, each)) for each in numbers if all(map(str.isdecimal, each))), default=None
    )


@rule("env.debug-left-on", "warning", whole=True)
def debug_left_on(found: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """A setting for the search of a fault stands in a file that every process reads."""
    for each in _lines(found, wanted):
        if each.path != _INVENTORY and each.value and is_debug(each.name, each.value):
            cause = "it fills logs, slows every step or hides a fault, in every job from now on"
            fix = f"take it out of {_where(each)}; for one run set it in front of the command"
            yield _fault(each, f"{each.name}={each.value}", "for a single run", cause, fix)


@rule("env.invalid-value", "warning", whole=True)
def invalid_value(found: NodeState, wanted: NodeWanted) -> Iterator[Fault]:
    """A value is read as another one, or a line of a configuration file as none at all."""
    conf = {CONF, "~/.nccl.conf"}
    for each in _lines(found, wanted):
        taken = misread(each.name, each.value) if each.value and each.is_plain else ""
        # Of NCCL's own files every line is judged below, with its quotes and blanks.
        if taken and (each.path not in conf or not _conf_trouble(_as_line(each), None)):
            cause = "NCCL does not say that it cannot read a value"
            fix = f"write a number, or a word that is one of its values, in {_where(each)}"
            yield _fault(each, f"{each.value!r} is read as {taken}", "a value", cause, fix)
    for line in conf_lines(found.env) if wanted.env is not None else ():
        trouble = _deepspeed_trouble(line) if line.path == DEEPSPEED else None
        trouble = trouble or (
            _conf_trouble(line, oldest(found)) if line.path != DEEPSPEED else None
        )
        if trouble:
            place = f"{line.path}:{line.line}"
            yield Fault(place, repr(line.text), *trouble, fixable=False)


def _as_line(each: Setting) -> Line:
    return Line(path=each.path, line=each.line, text=f"{each.name}={each.value}")


def _conf_trouble(line: Line, nccl: Version | None) -> tuple[str, str, str] | None:
    """Return wanted, cause and fix of a line that NCCL reads otherwise than it was meant."""
    text = line.text
    name, equals, value = text.partition("=")
    if not text.strip() or text.startswith("#"):
        return None
    wanted = "NAME=VALUE, and nothing else"
    plain = name.strip().removeprefix("export ").strip()
    fix = f"write {plain}={value.partition(' #')[0].strip(_QUOTES)}"
    if not equals:
        return wanted, "NCCL passes over a line without =", f"complete {line.path}:{line.line}"
    if name.startswith("export ") or name != name.strip():
        return wanted, f"NCCL trims nothing: the variable is called {name!r}", fix
    if value.endswith("\r") and (nccl is None or nccl < _NO_CR_SINCE):
        fix = f"sed -i 's/\\r$//' {line.path}"
        return wanted, "before NCCL 2.30.3 the CR at the end belongs to the value", fix
    if (value[:1] in "\"'" and value) or value != value.strip(" \t") or " #" in value:
        return wanted, "quotes, blanks and what follows # belong to the value", fix
    return None


def _deepspeed_trouble(line: Line) -> tuple[str, str, str] | None:
    """Return wanted, cause and fix of a line that stops DeepSpeed's launcher."""
    wanted, place = "NAME=VALUE alone, no comment and no blank line", f"{line.path}:{line.line}"
    if "=" not in line.text:
        cause = "deepspeed ends with a ValueError at a line without ="
    elif line.text.lstrip().startswith("#"):
        cause = (
            "deepspeed puts 'export #...;' before the command on each node: the shell takes all of "
            "the rest as a comment, starts nothing and ends with 0"
        )
    elif line.text.startswith("export "):
        cause = "deepspeed writes 'export' itself: the variable would be called 'export'"
    else:
        return None
    return wanted, cause, f"take the line {place} out"

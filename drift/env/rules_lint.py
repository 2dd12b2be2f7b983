"""Lint of users' lines: unknown and old names, invalid values, debugging left on."""

from collections.abc import Iterator
from dataclasses import replace

from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import FileLine, Variable
from gpu_node.drift.env.cover_ups import HIDES, is_cover_up
from gpu_node.drift.env.user_settings import (
    DEEPSPEED,
    SESSION,
    computed,
    conf_lines,
    editor,
    everywhere,
    of_session,
)
from gpu_node.drift.env.variables import is_debug, outdated
from gpu_node.drift.nccl.libnccl import environments
from gpu_node.drift.network.ifname import oldest
from gpu_node.drift.network.interfaces import selected
from gpu_node.facts.env.start_files import Setting
from gpu_node.facts.env.state import Line
from gpu_node.facts.network.state import HcaPort
from gpu_node.facts.node import NodeState
from gpu_node.inventories.fields.kinds import IFNAME
from gpu_node.inventories.nccl_variables import (
    FAMILIES,
    Version,
    is_unknown,
    is_unknown_in_conf,
    meant_in_vain,
    misread,
    real,
    suggestion,
)
from gpu_node.inventories.versions import numbers
from gpu_node.inventories.wanted import NodeWanted

_INVENTORY = "the inventory"
_NO_CR_SINCE = (2, 30, 3)
_QUOTES = "\"' \t\r"
# What NCCL does without a file: src/graph/xml.cc.
_WITHOUT = {
    "NCCL_GRAPH_FILE": "NCCL ends at its start: 'Could not open XML graph file' (system error)",
    "NCCL_TOPO_FILE": "NCCL ignores it, with a warning, and takes the topology that it finds",
}
_FIND = "find what sets it: a file that ~/.bashrc reads, sshd's SetEnv, PAM"


def _lines(state: NodeState, wanted: NodeWanted) -> Iterator[Setting]:
    """Yield each setting of users' lines and of the inventory's `env`, and what no line shows."""
    named = wanted.env or {}
    yield from everywhere(state)
    for name, value in named.items():
        yield Setting(path=_INVENTORY, line=0, name=name, value=value)
    yield from of_session(state, {*named, IFNAME})


def _where(each: Setting) -> str:
    return each.path if each.path in (_INVENTORY, SESSION) else each.place


def _fix(each: Setting, done: str, way_out: str = "remove the line {}") -> str:
    """Return what to do about a setting: `done` where it stands, or `way_out` of it."""
    if each.path == SESSION:
        return f"{_FIND}; then {done or 'remove it'} there"
    out = "remove it from {}" if each.path == _INVENTORY else way_out
    return f"{done} in {_where(each)}, or remove it" if done else out.format(_where(each))


def _fault(each: Setting, found: str, wanted: str, cause: str, fix: str, also: str = "") -> Fault:
    return Fault(
        Variable(each.name, _where(each)),
        found,
        wanted,
        cause,
        fix,
        who=editor(each.path),
        also=also,
    )


@check("env.unknown-variable")
def unknown_variable(at: At) -> Iterator[Fault]:
    conf = _conf_paths(at.node)
    for line in _lines(at.node, at.wanted):
        if is_unknown(line.name) or (line.path in conf and is_unknown_in_conf(line.name)):
            meant, vain = suggestion(line.name), meant_in_vain(line.name)
            is_for_a_run = bool(meant) and is_debug(meant, line.value or "")
            fix = _fix(line, "correct the name" if meant and not is_for_a_run else "")
            if is_for_a_run:
                fix += f"; {meant} is for a single run: set it in front of a command"
            elif meant:
                fix += f"; did you mean {meant}?"
            elif vain:
                fix = f"the nearest is {vain}, which is no longer read: {fix}"
            found = f"no variable of that name: {line.name}"
            yield _fault(line, found, meant or "none", "", fix, _unread(line.name))


def _unread(name: str) -> str:
    """Return who does not read a name, and which versions read the nearest real one."""
    near, versions = real(name)
    if near and not near.startswith(FAMILIES):
        return ""
    library = "PyTorch" if name.upper().startswith("TORCH") else "NCCL"
    also = f"no {library} version has read this name"
    return f"{also}; {near} is read by {versions}" if versions else also


def _conf_paths(state: NodeState) -> set[str]:
    return {line.path for line in conf_lines(state.env)} - {DEEPSPEED}


@check("env.deprecated")
def deprecated(at: At) -> Iterator[Fault]:
    nccl, torch = oldest(at.node), _torch(at.node)
    for line in _lines(at.node, at.wanted):
        if why := outdated(line.name, nccl, torch):
            fix = _fix(line, "use the name that is read instead")
            yield _fault(line, why, "a name that is read", "", fix)


def _torch(state: NodeState) -> Version | None:
    """The oldest torch of the environments; None where none could be read."""
    versions = [each.torch.version for _, each in environments(state.nccl) if each.torch]
    return min((found[:2] for each in versions if (found := numbers(each))), default=None)


@check("env.debug-left-on")
def debug_left_on(at: At) -> Iterator[Fault]:
    for line in (*_lines(at.node, at.wanted), *_computed(at.node, at.wanted)):
        if f"{line.name}={line.value}" in at.node.env.missing:
            yield _missing_file(line)
            continue
        # env.invalid-value reports a value that is read as another one, env.cover-up what hides.
        if line.path == _INVENTORY or not line.value or _misread(line):
            continue
        if line.name in HIDES or is_cover_up(line.name, line.value):
            continue
        hides_gpus = _hides_gpus(at.node, line)
        if hides_gpus or is_debug(line.name, line.value):
            cause = "it fills logs, slows every step or hides a fault, in every job from now on"
            if hides_gpus:
                cause = "its jobs see fewer GPUs than the node has: 'invalid device ordinal'"
            fix = f"{_fix(line, '', 'remove it from {}')}; for one run set it in front of a command"
            yield _fault(line, f"{line.name}={line.value}", "for a single run", cause, fix)


def _hides_gpus(state: NodeState, each: Setting) -> bool:
    """Whether a line of a start file leaves jobs fewer GPUs than the node has.

    A scheduler or a container sets the variable in a session: that is its choice.
    """
    if each.name != "CUDA_VISIBLE_DEVICES" or each.path == SESSION or not each.is_plain:
        return False
    value, smi = each.value or "", state.driver.smi
    chosen = {*filter(None, value.split(","))}
    return smi is not None and "MIG" not in value and len(chosen) < len(smi.gpus)


def _missing_file(each: Setting) -> Fault:
    cause = _WITHOUT.get(each.name, "NCCL does not load it, and may end where it needs it")
    found = f"{each.name}={each.value}, which is missing or not readable"
    fault = _fault(each, found, "a file of the node", cause, _fix(each, "correct the path"))
    return replace(fault, severity="error", stops=each.name == "NCCL_GRAPH_FILE")


def _misread(each: Setting) -> str:
    """Return how a library misreads a value, as far as the line shows it."""
    if not each.value or not each.is_plain or is_unknown(each.name):
        return ""
    return misread(each.name, each.value)


@check("env.invalid-value")
def invalid_value(at: At) -> Iterator[Fault]:
    conf = _conf_paths(at.node)
    for each in (*_lines(at.node, at.wanted), *_computed(at.node, at.wanted)):
        taken = _misread(each)
        # Of NCCL's own files every line is judged below, with its quotes and blanks.
        if taken and (each.path not in conf or not _conf_trouble(_as_line(each), None)):
            yield _fault(each, f"{each.value!r} {taken}", "a value", "", _value_fix(each))
    for line in conf_lines(at.node.env):
        trouble = _deepspeed_trouble(line) if line.path == DEEPSPEED else None
        trouble = trouble or (
            _conf_trouble(line, oldest(at.node)) if line.path != DEEPSPEED else None
        )
        if trouble:
            yield Fault(
                FileLine(line.path, line.line),
                repr(line.text),
                *trouble,
                who=editor(line.path),
            )


@check("env.hca-missing")
def hca_missing(at: At) -> Iterator[Fault]:
    names = [port.name.replace("/", ":") for port in _active(at)]
    for each in _plain(at, "NCCL_IB_HCA"):
        if names and not selected(each.value or "", names):
            found = f"{each.value} selects no active port"
            yield _fault(each, found, f"one of {', '.join(names)}", "", _fix(each, "correct it"))


@check("env.gid-missing")
def gid_missing(at: At) -> Iterator[Fault]:
    ports = _active(at)
    if not all(port.gids for port in ports):
        return  # of InfiniBand, or not read
    for each in _plain(at, "NCCL_IB_GID_INDEX"):
        if ports and not any(each.value in port.gids for port in ports):
            found = f"no active port has a GID {each.value}"
            indexes = ", ".join(dict.fromkeys(gid for port in ports for gid in port.gids))
            yield _fault(each, found, f"one of {indexes}", "", _fix(each, "correct it"))


def _active(at: At) -> list[HcaPort]:
    return [port for port in at.node.network.hca_ports or () if port.is_active]


def _plain(at: At, name: str) -> Iterator[Setting]:
    """Yield the settings of a variable whose value is known."""
    for each in (*_lines(at.node, at.wanted), *_computed(at.node, at.wanted)):
        if each.name == name and each.is_plain and each.value:
            yield each


def _computed(state: NodeState, wanted: NodeWanted) -> Iterator[Setting]:
    """Yield the session's values of lines that compute them."""
    yield from computed(state, {*(wanted.env or ()), IFNAME})


def _value_fix(each: Setting) -> str:
    if not (each.value or "").endswith("\r"):
        return _fix(each, "write a number, or a word that is one of its values,")
    if each.path in (_INVENTORY, SESSION):
        return _fix(each, "remove the CR")
    return f"remove the CRs: {_without_crs(each.path)}"


def _without_crs(path: str) -> str:
    return f"sed -i 's/\\r$//' {path}"


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
        return wanted, "NCCL ignores a line without =", f"complete {line.path}:{line.line}"
    if name.startswith("export ") or name != name.strip():
        return wanted, f"NCCL does not trim blanks: it reads the variable {name!r}", fix
    if value.endswith("\r") and (nccl is None or nccl < _NO_CR_SINCE):
        cause = "before NCCL 2.30.3 the CR at the end belongs to the value"
        return wanted, cause, _without_crs(line.path)
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
            "deepspeed puts 'export #...;' before the command on each node: the shell reads "
            "the rest as a comment, starts nothing and ends with 0"
        )
    elif line.text.startswith("export "):
        cause = "deepspeed writes 'export' itself: the variable would be called 'export'"
    else:
        return None
    return wanted, cause, f"remove the line {place}"

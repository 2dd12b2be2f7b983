"""Environment rules: a launcher's shell has what is wanted, and nothing else says otherwise."""

from collections.abc import Iterator
from shlex import quote

from gpu_node.drift.engine.finding import Who
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Path, Pid, User, Variable
from gpu_node.drift.env.bashrc import (
    BASHRC,
    SHARED,
    Values,
    are_placed,
    deciding,
    is_network_home,
    last_value,
    remove_first,
)
from gpu_node.drift.env.training_user import missing_user
from gpu_node.drift.env.user_settings import editor, everywhere
from gpu_node.drift.network.ifname import CONF, is_right, is_written, managed, manual_fix
from gpu_node.facts.env.inherited import Process
from gpu_node.facts.env.start_files import ENV_FILE, Setting
from gpu_node.facts.node import NodeState
from gpu_node.inventories.fields.kinds import IFNAME
from gpu_node.inventories.nccl_variables import is_unknown
from gpu_node.inventories.wanted import NodeWanted

_KINDS = {
    "shell": "end this shell and log in again",
    "server": "end it (screen -X quit, tmux kill-server) and start it again: its "
    "windows inherit its environment",
    "trainer": "let it end, and start it from a new session",
}


@check("env.user-missing")
def user_missing(at: At) -> Iterator[Fault]:
    user = missing_user(at.node)
    if user and at.wanted.launcher and at.wanted.launcher.user:
        yield Fault(
            subject=User(user),
            found="no such user",
            wanted="the user who trains, on every node",
            names={"USER": user},
        )


@check("env.not-writable")
def not_writable(at: At) -> Iterator[Fault]:
    user = at.node.env.user
    name = user.name if user else "the training user"
    for each in at.node.env.not_writable or ():
        is_missing = each.problem == "missing"
        is_tmp = each.path == "/tmp"  # noqa: S108 (only compared)
        place = quote(each.path)
        fix = f"look why: ls -ld {place}; findmnt -T {place} (ro: read-only); "
        fix += "chmod 1777 /tmp" if is_tmp else f"chown {quote(name)} {place}"
        if each.path == "/":  # of a user without an entry in passwd
            fix = f"give {name} a home, or start the container with -e HOME=FOLDER"
        elif is_missing:
            made = "install -d -m 1777 /tmp" if is_tmp else f"mkhomedir_helper {quote(name)}"
            fix = f"{made}, or mount what is missing there"
        yield Fault(
            subject=Path(each.path),
            found="does not exist" if is_missing else f"not writable by {name}",
            wanted=f"a folder that {name} can write to",
            also="" if is_tmp else f"it is the home of {name}",
            fix=fix,
            severity=None if is_missing or is_tmp else "warning",
            stops=is_tmp,
        )


@check("env.block-outdated")
def block_outdated(at: At) -> Iterator[Fault]:
    values = managed(at.node, at.wanted) if _is_managed(at.wanted) else None
    state = at.node.env
    if values is None or state.bashrc is None or state.settings is None or not state.bashrc.blocks:
        return
    if is_written(at.node, values):
        return
    texts = [*(block.text for block in state.bashrc.blocks), state.env_file or ""]
    is_shared = is_network_home(state) and not are_placed(state, SHARED)
    yield Fault(
        subject=Path(BASHRC),
        found=f"a block of {sum(map(_lines, texts))} variables"
        + (" of one node, in a home that other nodes may share" if is_shared else ""),
        wanted=f"a block that reads {ENV_FILE}, separate on each node"
        if is_shared
        else ", ".join(values) or "no block",
    )


@check("env.not-set")
def not_set(at: At) -> Iterator[Fault]:
    if at.wanted.env is None or at.node.env.launcher is None:
        return
    values = managed(at.node, at.wanted)
    for name, expected in at.wanted.env.items():
        value, last = at.node.env.launcher.get(name), last_value(at.node.env, name)
        line = deciding(at.node.env, name)
        if value != expected:
            shown = "not set" if value is None else repr(value)
            origin = f" ({line.place})" if line is not None and line.value == value else ""
            yield _not_set_fault(at.node, (name, expected), f"{shown}{origin}", values)
        elif last and not last.ours and last.is_plain and last.value != expected:
            shown = f"{last.value!r} in an interactive shell ({last.place})"
            yield _not_set_fault(at.node, (name, expected), shown, values)


def _not_set_fault(
    state: NodeState, expected: tuple[str, str], shown: str, values: Values | None
) -> Fault:
    name, value = expected
    hand, line = manual_fix(state, values, name), deciding(state.env, name)
    written = (
        f"in {ENV_FILE}, which {BASHRC} reads"
        if is_network_home(state.env)
        else f"at the top of {BASHRC}"
    )
    return Fault(
        subject=Variable(name),
        found=shown,
        wanted=value,
        fix=hand or f"{remove_first(state.env, name, value)}export {name}={quote(value)} {written}",
        who=editor(line.path) if hand and line else "user",
        fixable=hand is None,
    )


def _is_managed(wanted: NodeWanted) -> bool:
    return wanted.env is not None or wanted.network is not None


def _lines(block: str) -> int:
    return block.count("\nexport ") + block.count("\nunset ")


@check("env.left-behind")
def left_behind(at: At) -> Iterator[Fault]:
    for path in at.node.env.left or () if at.wanted.launcher and at.wanted.launcher.user else ():
        yield Fault(
            subject=Path(path),
            found="gpu-node's block, from when its owner was the training user",
            wanted="no block: its owner is not the training user",
            names={"FILE": path},
        )


@check("env.shell-prints")
def shell_prints(at: At) -> Iterator[Fault]:
    printed = at.node.env.prints
    if printed is not None and printed.bytes:
        yield Fault(
            subject=Path(BASHRC),
            found=f"prints {printed.bytes} bytes: {printed.first!r}",
            wanted="nothing",
        )


@check("env.unreached")
def unreached(at: At) -> Iterator[Fault]:
    state = at.node.env
    if state.bashrc is None or state.bashrc.returns is None:
        return
    values = managed(at.node, at.wanted) or {}
    for setting in state.settings or ():
        below = setting.path == BASHRC and setting.line > state.bashrc.returns
        # What we set reaches every shell by our own blocks.
        if (
            below
            and not setting.ours
            and not is_unknown(setting.name)
            and setting.name not in {*values, *(at.wanted.env or ()), IFNAME}
        ):
            yield Fault(
                subject=Variable(setting.name, setting.place),
                found=f"below line {state.bashrc.returns}, where a non-interactive shell returns",
                wanted="above it, or in the inventory",
                fix=f"move the line {setting.place} to the top of the file, "
                f"or set env: {{{setting.name}: ...}} in the inventory",
            )


@check("env.conflict")
def conflict(at: At) -> Iterator[Fault]:
    values = managed(at.node, at.wanted) or {}
    by_name: dict[str, list[Setting]] = {}
    for each in everywhere(at.node):
        if each.value is not None and each.is_plain and not _is_ours_to_cure(each, values):
            by_name.setdefault(each.name, []).append(each)
    for name, lines in by_name.items():
        expected = values.get(name)
        different = {line.value: line for line in lines}
        if name == IFNAME:
            different = {
                line.value: line
                for line in lines
                if not is_right(at.node, name, line.value, expected)
            }
            if expected is None:
                continue
        shown = [f"{value!r} ({each.place})" for value, each in different.items()]
        if len(shown) > 1 or (expected is not None and set(different) - {expected}):
            # "administrator" comes before "user": one file of root's is enough.
            yield _conflict_fault(name, shown, expected, min(editor(each.path) for each in lines))


def _is_ours_to_cure(each: Setting, values: Values) -> bool:
    """Whether our blocks of ~/.bashrc, or our lines of nccl.conf, have the last word."""
    return each.name in values and each.path in (BASHRC, CONF)


def _conflict_fault(name: str, shown: list[str], expected: str | None, who: Who) -> Fault:
    return Fault(
        subject=Variable(name),
        found=", ".join(shown),
        wanted=repr(expected) if expected is not None else "one value",
        who=who,
    )


@check("env.stale-process")
def stale_process(at: At) -> Iterator[Fault]:
    values = managed(at.node, at.wanted) if _is_managed(at.wanted) else None
    for process in at.node.env.processes or () if values else ():
        shown = "; ".join(_stale(at.node, process, values or {}))
        if shown:
            yield Fault(
                subject=Pid(process.pid, process.command),
                found=shown,
                wanted=", ".join(f"{name}={value or ''}" for name, value in (values or {}).items()),
                fix=_KINDS[process.kind],
            )


def _stale(state: NodeState, process: Process, values: Values) -> Iterator[str]:
    """Say what a process has otherwise; a shell gets its own from ~/.bashrc when it starts."""
    if process.environment is None:
        yield "an environment that cannot be read"
        return
    if process.kind == "shell" and not process.older:
        return
    for name, expected in values.items():
        value = process.environment.get(name)
        if not is_right(state, name, value, expected):
            yield f"{name} not set" if value is None else f"{name}={value}"

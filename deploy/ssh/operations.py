"""Operations on SSH among the nodes.

pyinfra's ssh.keyscan trusts any server that answers, accepts a part of a name as the name, and has
no port; server.user_authorized_keys keeps the keys of removed nodes.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from pyinfra import host, logger
from pyinfra.api import FunctionCommand, Host, State, operation

from gpu_node.deploy.engine.run import AskAll, Slot, of_inventory, run_of
from gpu_node.deploy.engine.scripts import as_user, script
from gpu_node.deploy.files.confirm import CONFIRM_SECONDS, Trial, keep_or_restore
from gpu_node.deploy.files.operations import Commands, edited, keep_lines
from gpu_node.deploy.files.replace import Edit, replace, sum_of, unread
from gpu_node.drift.ssh.mesh import authorized_line, is_installers
from gpu_node.drift.ssh.rules import refused
from gpu_node.facts.ask.execute import SSH_USER, execute
from gpu_node.facts.probe.file_bytes import FileBytes, FileContent
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.managed_block import NODES, OURS
from gpu_node.facts.probe.request import request_of
from gpu_node.facts.probe.training_user import HOME
from gpu_node.facts.ssh.state import Account, TrainingAccount

# The public key of each node during a run: some are made by it.
_KEYS: Slot[AskAll[str | None]] = Slot(AskAll)
_ASK_SECONDS = 30
# Disables a line of another program that our lines replace.
DISABLED = "#gpu-node# "
_CUT = "gpu-node's block in it has no end; remove what is left of it"


def _account(user: str) -> Account | None:
    account = host.get_fact(TrainingAccount, user=user)
    return Account.model_validate(account) if account else None


@operation()
def permissions(user: str) -> Commands:
    """
    Close a user's SSH files to others if sshd or ssh would refuse a key because of their modes.

    + user: the training user
    """
    account = _account(user)
    if account and not any(refused(name, mode, account) for name, mode in account.modes.items()):
        host.noop(f"the SSH files of {user} are closed to others")
        return
    home, uid = (account.home, account.uid) if account else ("", 0)
    words = {"uid": str(uid), "home": home}
    if user == "root" or not account:
        yield script("ssh_modes", user=user, **words)
        return
    # Only root can change a folder's owner; its owner does the rest: root follows no link in a
    # home.
    if any(each.uid != uid for each in account.modes.values()):
        yield script("ssh_folder", user=user)
    yield as_user(user, "ssh_modes", f"user={shlex.quote(user)}\n", **words)


@operation()
def key(user: str, comment: str) -> Commands:
    """
    Make a user's ed25519 key on the node, where it stays; an existing key is never overwritten.

    + user: the training user
    + comment: identifies the key, eg ``gpu-node:a100-01``
    """
    account = _account(user)
    if account and account.public is not None:
        host.noop(f"{user} has a key")
        return
    yield as_user(user, "ssh_key", HOME, comment=comment)


def _public_keys(state: State) -> Mapping[str, str | None]:
    """Return type and key of each node still in the run, None for a node without; read once.

    The nodes are asked over the connections of the run, so that no key goes through a file here.
    """
    return run_of(state).of(_KEYS).answers(state, _public_key)


def _public_key(host: Host) -> str | None:
    fact = TrainingAccount()
    request = request_of(host.data.dict())
    command = fact.command(user=request.user)
    # What is another user's is read by root's part, as in a report.
    rights = of_inventory(host) if request.trains_apart else SSH_USER
    try:
        _, output = execute(host.connector, command, _ASK_SECONDS, rights)
        key: str | None = fact.process(output.stdout_lines).get("public")
    except Exception:  # no answer, or one that cannot be parsed
        return None
    return key


@operation()
def authorized_keys(
    path: str,
    user: str,
    itself: Sequence[str],
    nodes: Sequence[str],
    asked: Mapping[str, Mapping[str, Any]],
) -> Commands:
    """
    Authorise the keys of the cluster's nodes; kept only if a new session can still be opened.

    + path: the file, eg ``/root/.ssh/authorized_keys``
    + user: whose file it is
    + itself: the names of this node and of the nodes that have the same file
    + nodes: the names of all nodes; lines of others go out of our block
    + asked: for each node in the run, its ``public`` key before the run, and its ``addresses``
    """
    old = host.get_fact(FileBytes, path=path, user=user)
    if old["problem"] or NODES.is_unclosed(old["text"]):
        yield unread(path, old["problem"] or _CUT)
        return
    before = {name: each["public"] for name, each in asked.items()}
    # Plans made before any key is made use the earlier keys.
    keys = {**before, **_public_keys(host.state)} if host.state.is_executing else before
    lines = {
        name: [authorized_line(name, public, asked[name]["addresses"], name in itself)]
        for name in asked
        if (public := keys[name])
    }
    new = with_lines(old["text"], lines, nodes)
    without = [name for name in asked if not keys[name]]
    if new == old["text"] and not without:
        host.noop(f"{path} accepts the key of every node")
        return
    if new != old["text"]:
        again = partial(with_lines, lines=lines, nodes=nodes)
        yield from _write(path, user, old, new, again)
    if without:
        yield FunctionCommand(report_keyless, [path, without], {})


def _write(path: str, user: str, old: FileContent, new: str, again: Edit) -> Commands:
    seconds = CONFIRM_SECONDS
    keep_lines(path, old, new)
    yield replace(path, old, new, confirm_seconds=seconds, user=user, again=again, mode="600")
    yield FunctionCommand(keep_or_restore, [Trial(path, sum_of(new), user)], {})


def report_keyless(state: State, host: Host, path: str, without: Sequence[str]) -> bool:
    """Report the nodes that could not be authorised because they have no key; those nodes fail."""
    names = ", ".join(without)
    logger.warning(f"{host.print_prefix}{path}: the key of {names} could not be added; run again")
    return True


@operation()
def lines(
    path: str, nodes: Sequence[str], wanted: Mapping[str, Sequence[str]], installers: str = ""
) -> Commands:
    """
    Write our block of lines about nodes; every other byte of the file stays.

    The line of Debian's installer, which makes a node's name loopback, gets a # in front; the # is
    removed together with the last of our lines.

    + path: the file, eg ``/etc/hosts``
    + nodes: the names of all nodes; lines of others go out of our block
    + wanted: the lines of each known node; the others keep theirs
    + installers: the node whose line of Debian's installer is disabled; empty for none
    """
    edit = partial(_with_lines, wanted=wanted, nodes=nodes, installers=installers)
    yield from _edited(path, edit, "lines")


def _with_lines(
    text: str, wanted: Mapping[str, Sequence[str]], nodes: Sequence[str], installers: str
) -> str:
    new = with_lines(text, wanted, nodes)
    if installers:
        return disable(new, lambda line: is_installers(line, installers))
    return new if nodes else enable(new)


# ssh reads the file directly, and stops at a line that it does not know.
_SSH_CHECK = 'ssh -F "$1" -G localhost </dev/null >/dev/null'


@operation()
def settings(path: str, body: str) -> Commands:
    """
    Write our block of ssh's settings; every other byte of the file stays.

    + path: the file, eg ``/etc/ssh/ssh_config.d/10-gpu-node.conf``
    + body: the lines of the block; empty for no block
    """
    edit = partial(NODES.replace, block=NODES.block(body))
    yield from _edited(path, edit, "settings", _SSH_CHECK)


def _edited(path: str, edit: Edit, what: str, check: str = "") -> Commands:
    """Replace a file of root by the result of `edit`, unless our block in it has no end."""

    def whole(text: str) -> str:
        if NODES.is_unclosed(text):
            raise ValueError(_CUT)
        return edit(text)

    yield from edited(path, whole, f"has the {what} of every node", absent="empty", check=check)


def with_lines(text: str, lines: Mapping[str, Iterable[str]], nodes: Iterable[str]) -> str:
    """Return `text` with `lines` in our block, in the order of `nodes`.

    A node that is not in `lines` keeps its lines; one that is no longer in `nodes` loses them.
    Other lines in the block stay, below it.
    """
    inside = lines_of("".join(each.body for each in NODES.find(text)))
    had: dict[str, list[str]] = {}
    foreign: list[str] = []
    for line in inside:
        ours = OURS.search(line)
        (had.setdefault(ours[1], []) if ours else foreign).append(line)
    kept = [line for node in nodes for line in lines.get(node, had.get(node, ()))]
    block = NODES.block("".join(f"{line}\n" for line in kept))
    return NODES.replace(text, block + "".join(f"{line}\n" for line in foreign))


def disable(text: str, is_meant: Callable[[str], bool]) -> str:
    """Return `text` with our comment mark before each selected line."""
    lines = text.split("\n")
    return "\n".join(f"{DISABLED}{line}" if line and is_meant(line) else line for line in lines)


def enable(text: str) -> str:
    """Return `text` with the lines that we disabled enabled again."""
    return re.sub(rf"^{re.escape(DISABLED)}", "", text, flags=re.MULTILINE)

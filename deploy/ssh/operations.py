"""Operations on SSH among the nodes.

pyinfra's ssh.keyscan trusts whoever answers, takes a part of a name for the name, and knows no
port; server.user_authorized_keys leaves the keys of nodes that are gone.
"""

from __future__ import annotations

import shlex
from collections.abc import Generator, Mapping, Sequence
from functools import partial
from typing import Any

from pyinfra import host, logger
from pyinfra.api import FunctionCommand, Host, State, StringCommand, operation

from deploy.block import is_cut, put_back, put_out, with_body, with_lines
from deploy.confirmation import CONFIRM_SECONDS, keep_or_restore
from deploy.keys import public_keys
from deploy.replacement import Edit, replace, sum_of, unread
from deploy.scripts import as_user, script
from drift.mesh import authorized_line, is_installers
from drift.rules.ssh import refused
from facts.files import FileBytes, FileContent
from facts.mesh import HOME
from facts.ssh import Account, PendingKeys, TrainingAccount

Command = StringCommand | FunctionCommand
Commands = Generator[Command, None, None]
_CUT = "our block in it begins and does not end; take out what is left of it"


def _account(user: str) -> Account | None:
    told = host.get_fact(TrainingAccount, user=user)
    return Account.model_validate(told) if told else None


@operation()
def permissions(user: str) -> Commands:
    """
    Close a user's SSH files to others where sshd or ssh would refuse a key because of them.

    + user: the training user
    """
    account = _account(user)
    if account and not any(refused(name, mode, account) for name, mode in account.modes.items()):
        host.noop(f"the SSH files of {user} are closed to others")
        return
    home, uid = (account.home, account.uid) if account else ("", 0)
    words = {"uid": str(uid), "home": home}
    # Only root gives files away; all else their owner does: a server may keep root out of a home.
    if user != "root" and account and all(each.uid == uid for each in account.modes.values()):
        yield as_user(user, "ssh_modes", f"user={shlex.quote(user)}\n", **words)
    else:
        yield script("ssh_modes", user=user, **words)


@operation()
def key(user: str, comment: str) -> Commands:
    """
    Make a user's ed25519 key on the node, where it stays; none is ever overwritten.

    + user: the training user
    + comment: what tells the key from others, eg ``gpu-node:a100-01``
    """
    account = _account(user)
    if account and account.public is not None:
        host.noop(f"{user} has a key")
        return
    yield as_user(user, "ssh_key", HOME, comment=comment)


@operation()
def authorized_keys(
    path: str,
    user: str,
    itself: Sequence[str],
    nodes: Sequence[str],
    asked: Mapping[str, Mapping[str, Any]],
) -> Commands:
    """
    Let the keys of the cluster's nodes in; kept only if a new session can still be opened.

    + path: the file, eg ``/root/.ssh/authorized_keys``
    + user: whose file it is
    + itself: this node's name, and those of the nodes that have the same file
    + nodes: the names of all nodes; lines of others go out of our block
    + asked: of each node in the run, its ``public`` key before it, and the ``addresses`` it has
    """
    old = host.get_fact(FileBytes, path=path, user=user)
    if old["problem"] or is_cut(old["text"]):
        yield unread(path, old if old["problem"] else {**old, "problem": _CUT})
        return
    before = {name: each["public"] for name, each in asked.items()}
    # What is planned before any key is made goes by the keys that there were.
    keys = {**before, **public_keys(host.state)} if host.state.is_executing else before
    lines = {
        name: [authorized_line(name, public, asked[name]["addresses"], name in itself)]
        for name in asked
        if (public := keys[name])
    }
    new = with_lines(old["text"], lines, nodes)
    without = [name for name in asked if not keys[name]]
    if new == old["text"] and not without:
        host.noop(f"{path} lets every node in")
        return
    if new != old["text"]:
        again = partial(with_lines, lines=lines, nodes=nodes)
        yield from _write(path, user, old, new, again)
    if without:
        yield FunctionCommand(tell_keyless, [path, without], {})


@operation()
def settle(path: str, user: str) -> Commands:
    """
    Confirm, in a new session, an authorized_keys that a run wrote which was cut off.

    + path: the file, eg ``/root/.ssh/authorized_keys``
    + user: whose file it is
    """
    if not host.get_fact(PendingKeys, user=user).get("pending", True):
        host.noop(f"{path} waits for nothing")
        return
    yield FunctionCommand(keep_or_restore, [path], {"user": user})


def _write(path: str, user: str, old: FileContent, new: str, again: Edit) -> Commands:
    if not old["exists"]:
        yield as_user(user, "ssh_keys_file", HOME)
        old = {**old, "exists": True}
    yield replace(path, old, new, confirm_seconds=CONFIRM_SECONDS, user=user, again=again)
    yield FunctionCommand(keep_or_restore, [path], {"after": sum_of(new), "user": user})


def tell_keyless(state: State, host: Host, path: str, without: Sequence[str]) -> bool:
    """Say which nodes could not be let in, for they have no key: theirs is the failure."""
    told = ", ".join(without)
    logger.warning(f"{host.print_prefix}{path}: no key to let in of {told}; run again")
    return True


@operation()
def lines(
    path: str, nodes: Sequence[str], told: Mapping[str, Sequence[str]], installers: str = ""
) -> Commands:
    """
    Write our block of lines about nodes; every other byte of the file stays.

    Of Debian's installer's own line, by which a node's name is loopback, a # is put in front; it is
    taken away with the last of our lines.

    + path: the file, eg ``/etc/hosts``
    + nodes: the names of all nodes; lines of others go out of our block
    + told: the lines of each node that something is known of; the others keep theirs
    + installers: the node whose line of Debian's installer is put out; empty for none
    """
    old = host.get_fact(FileBytes, path=path)
    if old["problem"] or is_cut(old["text"]):
        yield unread(path, old if old["problem"] else {**old, "problem": _CUT})
        return
    edit = partial(_with_lines, told=told, nodes=nodes, installers=installers)
    new = edit(old["text"])
    if new == old["text"]:
        host.noop(f"{path} has the lines of every node")
        return
    yield replace(path, old, new, again=edit)


def _with_lines(
    text: str, told: Mapping[str, Sequence[str]], nodes: Sequence[str], installers: str
) -> str:
    new = with_lines(text, told, nodes)
    if installers:
        return put_out(new, lambda line: is_installers(line, installers))
    return new if nodes else put_back(new)


# ssh reads the file by itself, and stops at a line that it does not know.
_SSH_CHECK = 'ssh -F "$1" -G localhost </dev/null >/dev/null'


@operation()
def settings(path: str, body: str) -> Commands:
    """
    Write our block of ssh's settings; every other byte of the file stays.

    + path: the file, eg ``/etc/ssh/ssh_config.d/10-gpu-node.conf``
    + body: the lines of the block; empty for no block
    """
    old = host.get_fact(FileBytes, path=path)
    if old["problem"] or is_cut(old["text"]):
        yield unread(path, old if old["problem"] else {**old, "problem": _CUT})
        return
    new = with_body(old["text"], body)
    if new == old["text"]:
        host.noop(f"{path} has the settings of every node")
        return
    yield replace(path, old, new, check=_SSH_CHECK, again=partial(with_body, body=body))

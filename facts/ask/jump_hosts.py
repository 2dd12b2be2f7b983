"""Jump hosts of ssh's configuration: reached with our options, which ssh itself does not pass on.

For a ProxyJump ssh starts another ssh that gets only -F of our options: whether that one accepts an
unknown key, asks for a password or forwards an agent then depends on the configuration. A
ProxyCommand that starts the same ssh with our options takes its place.
"""

import re
import shlex
import subprocess
from collections.abc import Sequence

from gpu_node.facts.ask.controller import run_here
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.ssh.options import STRICT

# The maximum of jump hosts for a node, and how long ssh may take to print its settings.
_MOST = 8
_SECONDS = 30
_HOP = re.compile(
    r"(?:ssh://)?(?:(?P<user>[A-Za-z0-9_][A-Za-z0-9_.+@\\-]*)@)?"
    r"(?:(?P<host>[A-Za-z0-9_][A-Za-z0-9_.-]*)|\[(?P<address>[A-Fa-f0-9:.]+(?:%[A-Za-z0-9_.-]+)?)\])"
    r"(?::(?P<port>[0-9]{1,5}))?/?"
)
# ssh replaces this by the target of the connection.
_ONWARD = ("-W", "[%h]:%p")


def by_jump_hosts(words: Sequence[str], host: str, config: str = "") -> list[str]:
    """Return the options by which this ssh command reaches a host with our rules.

    They are empty if ssh's configuration has no ProxyJump for the host. `config` is the file after
    -F, or empty. ValueError: the jump hosts cannot be used; str() gives which and why.
    """
    named = _jump_hosts([*words[1:], host])
    return _proxy(named.split(","), config, _MOST) if named else []


def _proxy(hops: Sequence[str], config: str, left: int) -> list[str]:
    """Return the option that makes ssh connect through jump hosts, the last one first."""
    if not left:
        raise ValueError(
            f"more than {_MOST} jump hosts are on the way, or one leads to another and back; "
            "look at ProxyJump in ssh's configuration"
        )
    match = _HOP.fullmatch(hops[-1])
    if match is None:
        raise ValueError(
            f"the jump host {hops[-1]!r} is not [user@]host[:port]; correct it in ProxyJump of "
            "ssh's configuration"
        )
    to = match["host"] or match["address"]
    words = ["ssh", *STRICT, *(("-F", config) if config else ())]
    words += ["-l", match["user"]] if match["user"] else []
    words += ["-p", match["port"]] if match["port"] else []
    # Without hops before it in this list, ssh uses the hops of its own settings.
    before = list(hops[:-1])
    if not before and (named := _jump_hosts([*words[1:], to])):
        before = named.split(",")
    words += _proxy(before, config, left - 1) if before else []
    # ssh expands each % once in the command that it starts.
    plain = [word.replace("%", "%%") for word in words]
    return ["-o", f"ProxyCommand={shlex.join([*plain, *_ONWARD, to.replace('%', '%%')])}"]


def _jump_hosts(words: Sequence[str]) -> str:
    """Return the jump hosts that ssh's configuration names for a call, or nothing.

    None if the configuration is wrong: ssh itself reports the error when it connects.
    """
    try:
        done = run_here(["ssh", *STRICT, "-G", *words], _SECONDS)
    except subprocess.TimeoutExpired as error:
        raise ValueError(
            f"ssh -G does not print its settings for {words[-1]} within {_SECONDS} s; look at the "
            "Match exec lines of ssh's configuration"
        ) from error
    lines = [line.partition(" ") for line in lines_of(done.stdout)]
    named = next((value for key, _, value in lines if key.lower() == "proxyjump"), "")
    return "" if named.lower() == "none" else named.strip()

"""Proxies on the node itself that no program offers: every download through one fails."""

from collections.abc import Iterator

from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import FileLine, Subject, Variable
from gpu_node.drift.env.user_settings import REMOVE_ITS_SOURCE, SESSION
from gpu_node.facts.env.proxies import Proxy
from gpu_node.inventories.wanted import NodeWanted

# What reads a file, by a part of its path, and the command that removes its setting.
_READERS = (
    ("git", "git", "git config --{scope} --unset-all http.proxy (and https.proxy)"),
    ("pip.conf", "pip", ""),
    ("yum", "yum", ""),
    ("dnf", "dnf", ""),
    ("apt", "apt", ""),
)


@check("env.proxy")
def proxy(at: At) -> Iterator[Fault]:
    for each in at.node.env.proxies or ():
        if not each.listens:
            reader, command = _reader(each)
            yield Fault(
                subject=_subject(each),
                found=f"{each.name}: {each.address}, where no program listens",
                wanted="a proxy that answers, or none",
                cause=f"{reader} cannot connect to a proxy that ended, and every download fails: "
                "'Failed to connect to ... port ...: Connection refused'",
                fix=f"start the proxy, or {_removal(each, command)}",
                who="administrator" if each.path.startswith("/") else "user",
                deploy=_ours(at.wanted),
            )


def _subject(each: Proxy) -> Subject:
    return FileLine(each.path, each.line) if each.path else Variable(each.name, SESSION)


def _reader(each: Proxy) -> tuple[str, str]:
    """Return what reads a setting, and the command that removes it; empty where none does."""
    for part, name, command in _READERS:
        if part in each.path:
            scope = "global" if each.path.startswith("~") else "system"
            return name, command.format(scope=scope)
    return "what is started from a login", ""


def _removal(each: Proxy, command: str) -> str:
    if not each.path:
        return REMOVE_ITS_SOURCE
    line = f"remove the line {each.path}:{each.line}"
    return f"{line}: {command}" if command else line


def _ours(wanted: NodeWanted) -> str:
    if wanted.proxy is not None:
        return ""
    return "set proxy: {url: http://...} in the inventory for what the deploy downloads"

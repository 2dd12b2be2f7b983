"""Settings and modules of the kernel, and services, that the inventory names."""

import re
from collections.abc import Iterator

from gpu_node.facts.probe.base import Parsers, State
from gpu_node.facts.probe.protocol import Section
from gpu_node.facts.probe.readers import Columns
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.probe.shell import assigned, shell

_SCRIPTS = {
    "sysctl": shell("host/sysctl"),
    "modules": shell("host/modules"),
    "services": shell("host/services"),
}
# A word of sh that is no option: a Python inventory is read before it is judged.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,200}")


class Setting(State):
    """What a node has `now`, and what `file` has a boot give it; None: nothing.

    `can`: there is such a setting or module, or such a service that can be enabled.
    """

    name: str
    can: bool = False
    now: str | None = None
    boot: str | None = None
    file: str | None = None


def sections(request: ProbeRequest) -> Iterator[Section]:
    """Yield what is asked where the inventory names something."""
    paths = [str(each).replace(".", "/") for each in request.sysctl if _is_name(each)]
    for kind, names in {
        "sysctl": paths,
        "modules": [*filter(_is_name, request.modules)],
        "services": [*filter(_is_name, request.services)],
    }.items():
        command = assigned(names=" ".join(names)) + _SCRIPTS[kind]
        if names:
            yield Section(f"host.{kind}", command, root=True, light=kind != "services")


def _is_name(name: object) -> bool:
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


_ROWS = Columns(Setting, "name can now boot file")
PARSERS: Parsers = {f"host.{kind}": (kind, _ROWS) for kind in ("sysctl", "modules", "services")}

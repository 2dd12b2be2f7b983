"""What the inventory names of the system: settings and modules of the kernel, and services."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from pydantic import Field

from gpu_node.facts.probe.base import Parsers, State
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.protocol import Section, Unreadable
from gpu_node.facts.probe.readers import by_word
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.probe.shell import assigned, shell

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,200}")
_SET = re.compile(r"(/[^:]{1,200}):\s*-?\s*([a-z0-9_./-]{1,200}?)\s*=\s*(.{0,200})")
_MODULE = re.compile(r"(builtin|dep):/(.{1,60})\.ko")


class SetBy(State):
    """A line of a file that sets a setting of the kernel."""

    file: str
    name: str
    value: str


class Sysctl(State):
    """Settings of the kernel: their `values`, and those that it lacks.

    `lines` are those of files, in the order of a boot; /etc/sysctl.conf, the last, is read by
    `sysctl --system` alone. A name that is in none of them could not be read.
    """

    values: dict[str, str] = Field(default_factory=dict)
    lacks: tuple[str, ...] = ()
    lines: tuple[SetBy, ...] = ()


class Modules(State):
    """Modules of the kernel: loaded, part of it, there for it, and loaded at a boot by a file."""

    loaded: tuple[str, ...] = ()
    builtin: tuple[str, ...] = ()
    there: tuple[str, ...] = ()
    at_boot: tuple[str, ...] = ()


class Service(State):
    """A service, in the words of systemctl show: `load` is not-found where there is none.

    `file` says whether a boot starts it: enabled, disabled, static, masked.
    """

    load: str
    file: str = ""
    active: str = ""
    kind: str = ""
    result: str = ""

    @property
    def is_done(self) -> bool:
        """Whether it is one that runs once, and has."""
        return (self.kind, self.active, self.result) == ("oneshot", "inactive", "success")


def sections(request: ProbeRequest) -> Iterator[Section]:
    """Yield what is asked where the inventory names something."""
    asked = {
        "sysctl": [each.replace(".", "/") for each in filter(_is_name, request.sysctl)],
        "modules": [*filter(_is_name, request.modules)],
        "services": [*filter(_is_name, request.services)],
    }
    for kind, names in asked.items():
        # In a file / may be a dot, and _ of a module a hyphen.
        keys = "|".join(each.replace("/", "[./]").replace("_", "[_-]") for each in names)
        given = assigned(names=" ".join(names), keys=keys)
        command, is_light = given + shell(f"host/{kind}"), kind != "services"
        if names:
            yield Section(f"host.{kind}", command, root=kind == "sysctl", light=is_light)


def _is_name(name: object) -> bool:
    """Whether it is a word of sh that is no option; the model of an inventory takes no other."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def parse_sysctl(text: str) -> Sysctl:
    """Parse `lacks PATH`, `PATH:VALUE` below /proc/sys, and `FILE:NAME = VALUE`."""
    lines = lines_of(text)
    now = [each.partition(":") for each in lines if not each.startswith(("/", "lacks "))]
    matches = [match for each in lines if (match := _SET.fullmatch(each))]
    found = [SetBy(file=each[1], name=_dotted(each[2]), value=_plain(each[3])) for each in matches]
    return Sysctl(
        values={_dotted(path): _plain(value) for path, _, value in now},
        lacks=tuple(map(_dotted, by_word(lines)["lacks"])),
        lines=tuple(sorted(found, key=lambda each: _order(each.file))),
    )


def _order(path: str) -> tuple[bool, str]:
    return path == "/etc/sysctl.conf", PurePosixPath(path).name


def _dotted(name: str) -> str:
    return name.replace("/", ".")


def _plain(value: str) -> str:
    return " ".join(value.split())


def parse_modules(text: str) -> Modules:
    """Parse `loaded NAME`, `FILE:/NAME.ko` of modules.builtin or modules.dep, and `boot NAME`."""
    rows = by_word(text)
    known = {"builtin": set[str](), "dep": set[str]()}
    for match in _MODULE.finditer(text):
        known[match[1]].add(match[2].replace("-", "_"))
    return Modules(
        loaded=tuple(rows["loaded"]),
        builtin=tuple(sorted(known["builtin"])),
        there=tuple(sorted(known["dep"])),
        at_boot=tuple(sorted({each.strip().replace("-", "_") for each in rows["boot"]})),
    )


def parse_services(text: str) -> dict[str, Service]:
    """Parse a line with the names, and for each a paragraph of `KEY=VALUE`; or nothing."""
    first, _, rest = text.strip().partition("\n")
    names, blocks = first.split(), [each for each in rest.split("\n\n") if each.strip()]
    if len(names) != len(blocks):
        raise Unreadable(f"systemctl shows {len(blocks)} of {len(names)} services")
    return dict(zip(names, map(_service, blocks), strict=True))


def _service(block: str) -> Service:
    has = {key: value for key, _, value in (each.partition("=") for each in lines_of(block))}
    return Service(
        load=has["LoadState"],
        file=has.get("UnitFileState", ""),
        active=has.get("ActiveState", ""),
        kind=has.get("Type", ""),
        result=has.get("Result", ""),
    )


PARSERS: Parsers = {
    "host.sysctl": ("sysctl", parse_sysctl),
    "host.modules": ("modules", parse_modules),
    "host.services": ("services", parse_services),
}

"""A report without names, for people outside of its cluster; made before any format is written.

What stays is known: numbers, versions, and words that gpu-node's own files have. Each other word is
a name, and so are users, nodes, addresses and folders of users, whatever their words. A name is
replaced by a part of its HMAC: the same word in all reports with one key, which no list of likely
names finds without the key.
"""

import dataclasses
import hmac
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from ipaddress import ip_address
from itertools import chain, islice
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from gpu_node.drift.engine.nodes import Judged
from gpu_node.drift.engine.registry import RULES
from gpu_node.drift.report.model import Report, Summary, Tool
from gpu_node.drift.report.seen import Seen
from gpu_node.facts.areas import AREAS

# Whose files have the words of a report; a name that is an example in them, and what they lack.
_ROOMS, _EXAMPLES = ("drift", "facts", "inventories"), {"alice"}
_OTHERS = {"LTS", "amd", "blacklist", "gcc", "generic", "gnu", "include", "make", "mtu"}
# How Debian and Ubuntu call their releases.
_CALLED = {"buster", "bullseye", "bookworm", "trixie", "bionic", "focal", "jammy", "noble"}
# Fields with a name, models whose `name` is one, and names that every system has.
_NAMES = {"address", "alias", "domain", "group", "hostname", "node", "owner", "user"}
_NAMED = {"GpuContainer", "Name", "Peer", "User"}
_EVERYWHERE = {"all", "docker", "http", "https", "nobody", "none", "root", "unlimited"}
# Fields that begin with an area, and those that programs read, or no format writes.
_OF_AREA, _AS_THEY_ARE = {"entry", "fact", "rule"}, {"comparison", "packed", "severity", "status"}
_WITHOUT_NAMES = (Judged, Summary, Tool)
# Of a path in the system's folders what is in such paths of those files stays, and each program;
# of any other path these names alone.
_ROOT = r"/(?:etc|usr|lib\w*|s?bin|boot|dev(?!/shm/)|proc|run|sys|var)"
_SYSTEM, _SYSTEMS = re.compile(rf"{_ROOT}(?:/|$)"), re.compile(rf"{_ROOT}(?:/[\w.*+-]+)+")
_TECHNICAL = re.compile(
    r"home|root|opt|srv|mnt|tmp|dev|shm|envs|s?bin|lib|lib64|include|share|nvidia|nccl|torch"
    r"|(?:mini|ana)conda3?|miniforge3?|venv|(?:site|dist)-packages|python[\d.]*|lib\w+\.so[\d.]*"
)
_PACKAGES = re.compile("(?:site|dist)-packages")
# With 12 letters and digits it is the id of a container.
_NUMBER = re.compile(
    r"\d+|(?!\w{12})\d+(?:[A-Za-z]{1,2}|[KMGT]iB|[KMG]bps|ubuntu)\d*|[A-Za-z]{0,2}"
    r"|(?:en[ops]|ib[ps]?|nvme)(?:\d+[a-z]{1,2})*\d+"
    r"|(?:bond|bpo|cp|cu|cuda|deb|dev|el|eth|fc|git|mlx|post|rocm|virbr)\d+(?:[a-z]{1,2}\d*)?"
)
_HEX = "[0-9A-Fa-f]"
_GUID = re.compile(rf"{_HEX}{{4}}(?::{_HEX}{{4}}){{3}}")
_QUAD = re.compile(r"(?<!\d)\d{1,3}(?:\.\d{1,3}){3}(?!\d)")
# ip-10-20-30-40, as names of machines have it.
_DASHED = re.compile(r"(?<!\d)\d{1,3}(?:[-_]\d{1,3}){3}(?!\d)")
_WORDS = r"[\w-]+(?:\.[\w-]+)*"
# A name alone: @group, http://proxy:3128, 10.0.0.4/24.
_A_NAME = re.compile(rf"^(?:\w+://)?[@%]?({_WORDS})(?::\d*|/\d+)?/?$")
_OF_MOUNT = re.compile(rf"^({_WORDS}):/")
_PARTS = re.compile("[^-_]+")
# The number of a version stays, where what a site adds to it may be a name.
_VERSION = re.compile(r"\d+(?:\.\d+)+(?=-)")
_WORD = re.compile(_WORDS)
_LETTERS = re.compile("[A-Za-z]{3,}")
_PATTERN = re.compile(
    r"(?P<url>\b[A-Za-z][A-Za-z0-9+.-]{0,15}://[^\s\"'<>]+)"
    r"|(?P<key>SHA256:[A-Za-z0-9+/]{43}|\bAAAA[A-Za-z0-9+/]{20,}={0,2})"
    rf"|(?P<mac>(?<!{_HEX}){_HEX}{{2}}(?:[:-]{_HEX}{{2}}){{5,19}}(?!{_HEX}))"
    rf"|(?P<colons>(?<!\w){_HEX}{{0,4}}:[0-9A-Fa-f:]{{0,64}}(?:{_HEX}|::)(?!\w|:{_HEX}|\.\d))"
    r"|(?P<quad>(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?!\.?\d))"
    r"|(?P<range>[\w.-]{0,255}\[\d{1,9}(?:-\d{1,9})?(?:,\d{1,9}(?:-\d{1,9})?)*\][\w.-]*)"
    r"|(?P<path>(?<![\w./~-])(?:~[\w.-]*)?(?:/[^\s/\"'`,;:()\[\]{}<>|&=]+)+|(?<![\w~])~[\w.-]+)"
    rf"|(?P<words>{_WORDS})"
)
_RANGE = re.compile(r"([^\[]*)\[([^\]]*)\](.*)")
# A word has fewer parts, and more nodes of a range are a number; so many of one are tried.
_MOST, _MOST_TRIED = 16, 10_000


class Anonymity:
    """What the names of a report, and of the inventory's entries of its nodes, become."""

    def __init__(self, key: bytes, report: Report, seen: Mapping[str, Seen]) -> None:
        self._key = key
        self._known: dict[str, str] = {}
        self._names: set[str] = set()
        self._versions: set[str] = set()
        entries = [part for each in seen.values() for part in (each.wanted, *each.nodes)]
        _walked((report, entries), self._collected)
        for name in (*report.hosts, *seen):
            self._names.update(_WORD.findall(name))
        self._names = {
            each for each in self._names - _EVERYWHERE if len(each) > 1 and not each.isdecimal()
        }

    def of(self, value: Any) -> Any:
        """Return a report, or a part of one, without names."""
        return _walked(value, self._in_field)

    def word(self, word: str) -> str:
        """Return a word of --only: rules and areas stay."""
        return self._in_field(word, "", "rule")

    def _collected(self, text: str, model: str, field: str) -> str:
        if field in _NAMES or (field == "name" and model in _NAMED):
            self._names.update(_A_NAME.findall(text))
        elif field == "source":  # of a mount: nas:/home
            self._names.update(_OF_MOUNT.findall(text))
        elif field in ("packages", "version"):
            self._versions.update(_QUAD.findall(text))
        return text

    def _in_field(self, text: str, _: str, field: str) -> str:
        if field in _AS_THEY_ARE or text in _of_rules():
            return text
        area, dot, rest = text.partition(".")
        if field in _OF_AREA and area in AREAS:
            return f"{area}{dot}{self._text(rest)}"
        return self._text(text)

    def _text(self, text: str) -> str:
        if text not in self._known:
            self._known[text] = _PATTERN.sub(self._replaced, text)
        return self._known[text]

    def _replaced(self, match: re.Match[str]) -> str:
        found, kind = match[0], match.lastgroup
        if kind == "url":
            return f"{found.partition('://')[0]}://{self._name(found)}"
        if kind == "mac" or (kind == "colons" and _is_address(found)):
            return self._name(found, "address")
        if kind == "colons":
            return self._parts(found, ":")
        if kind == "quad":
            is_version = found in self._versions and found not in self._names
            kept = is_version or found.startswith(("0.", "127.", "255."))
            return found if kept else self._name(found, "address")
        if kind == "range":
            return self._range(found)
        if kind == "path":
            return self._path(found)
        return self._name(found) if kind == "key" else self._words(found)

    def _words(self, words: str) -> str:
        is_name = words in self._names or _QUAD.search(words)
        if is_name:
            return self._name(words)
        version = _VERSION.match(words)
        kept = f"{version[0]}-" if version else ""
        return kept + self._parts(words[len(kept) :], ".")

    def _parts(self, text: str, separator: str) -> str:
        parts = text.split(separator)
        return separator.join(each if self._is_known(each) else self._name(each) for each in parts)

    def _is_known(self, part: str) -> bool:
        """Whether each word of a part is a number, or a word of gpu-node's files, and no name."""
        if part == "gpu-node":
            return True
        if _DASHED.search(part):
            return False
        words = [*_PARTS.finditer(part)]
        starts, ends = [each.start() for each in words], [each.end() for each in words]
        if len(words) > _MOST or any(part[a:b] in self._names for a in starts for b in ends):
            return False
        return all(each[0] in _vocabulary() or _NUMBER.fullmatch(each[0]) for each in words)

    def _range(self, text: str) -> str:
        """Return the nodes of a range such as a100-[01-03]; others are words."""
        match = _RANGE.fullmatch(text)
        assert match is not None
        numbers = islice(_numbers(match[2]), _MOST_TRIED)
        names = [f"{match[1]}{each}{match[3]}" for each in numbers]
        if self._names.isdisjoint(names):
            return f"{self._text(match[1])}[{match[2]}]{self._text(match[3])}"
        return f"{len(names)} nodes" if len(names) > _MOST else ", ".join(map(self._name, names))

    def _path(self, path: str) -> str:
        first, *parts = path.split("/")
        shown = [f"~{self._name(first[1:])}" if first[1:] else first]
        is_system, is_package = _SYSTEM.match(path), False
        for part in parts:
            plain = part.rstrip(".")
            is_known = is_package or part.startswith(".") or bool(_TECHNICAL.fullmatch(plain))
            if is_system and not is_known:
                words = _LETTERS.findall(part)
                is_known = shown[-1] in ("bin", "sbin") or _of_paths().issuperset(words)
            is_known = is_known or (first == "~" and plain in _of_homes())
            shown.append(self._text(part) if is_known else self._name(plain) + part[len(plain) :])
            is_package = is_package or _PACKAGES.fullmatch(part) is not None
        return "/".join(shown)

    def _name(self, name: str, kind: str = "name") -> str:
        digest = hmac.digest(self._key, name.encode("utf-8", "replace"), "sha256")
        return f"{kind}-{digest.hex()[:10]}"


def _walked(
    value: Any, change: Callable[[str, str, str], str], model: str = "", field: str = ""
) -> Any:
    """Return a value with each text changed by its model and its field."""
    if isinstance(value, str):
        return change(value, model, field)
    if isinstance(value, _WITHOUT_NAMES):
        return value
    if isinstance(value, BaseModel):
        fields, of = type(value).model_fields.keys(), type(value).__name__
        changed = {each: _walked(getattr(value, each), change, of, each) for each in fields}
        made = value.model_copy(update=changed)
        for kept in vars(made).keys() - fields:  # cached properties
            del vars(made)[kept]
        return made
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [each.name for each in dataclasses.fields(value)]
        changed = {each: _walked(getattr(value, each), change) for each in names}
        return dataclasses.replace(value, **changed)
    if isinstance(value, Mapping):
        return {
            _walked(key, change): _walked(each, change, model, field) for key, each in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return type(value)(_walked(each, change, model, field) for each in value)
    return value


@cache
def _of_rules() -> frozenset[str]:
    """Return what rules say of themselves, and the areas."""
    texts = (
        (each.id, each.why, each.manual, each.without_root, each.in_container)
        for each in RULES.values()
    )
    return frozenset((*AREAS, *chain.from_iterable(texts)))


@cache
def _files() -> str:
    """Return gpu-node's own files, one behind the other."""
    package = Path(__file__).parents[2]
    files = (each for room in _ROOMS for each in (package / room).rglob("*.*"))
    kept = (each for each in files if each.suffix in (".awk", ".py", ".sh", ".tsv", ".yml"))
    return "\n".join(each.read_text("utf-8") for each in kept)


@cache
def _vocabulary() -> frozenset[str]:
    """Return the words of these files."""
    return frozenset(re.findall("[A-Za-z][A-Za-z0-9]*", _files())) - _EXAMPLES | _OTHERS | _CALLED


@cache
def _of_homes() -> frozenset[str]:
    """Return the names in these files' paths below a home, such as ~/.ssh/config."""
    paths = re.findall(r"(?<![\w./])~/([\w./-]*\w)", _files())
    return frozenset(part for path in paths for part in path.split("/"))


@cache
def _of_paths() -> frozenset[str]:
    """Return the words of these files' paths in folders of the system."""
    return frozenset(_LETTERS.findall(" ".join(_SYSTEMS.findall(_files())))) | _OTHERS


def _is_address(text: str) -> bool:
    if _GUID.fullmatch(text):
        return True
    try:
        address = ip_address(text)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_unspecified)


def _numbers(spans: str) -> Iterator[str]:
    for span in spans.split(","):
        first, _, last = span.partition("-")
        for number in range(int(first), int(last or first) + 1):
            yield f"{number:0{len(first)}}"

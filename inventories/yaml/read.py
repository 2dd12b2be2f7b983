"""YAML with the line of every value, and without the surprises of YAML 1.1."""

import codecs
import errno
import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from gpu_node.inventories.errors import InventoryError, KeyPath, Problem, dotted, quoted, reason
from gpu_node.inventories.regular_file import MOST_BYTES, NOT_UTF8, content
from gpu_node.inventories.yaml.foreign import of_another_program
from gpu_node.inventories.yaml.guard import TAG as _TAG
from gpu_node.inventories.yaml.guard import AliasFreeLoader, Refused
from gpu_node.inventories.yaml.syntax import odd_blanks, unparsed, with_wide_sign

_PLAIN_INT = re.compile(r"-?(0|[1-9][0-9]{0,17})")
# A key with its value behind it, as YAML reads what lacks the blank between them.
_JOINED = re.compile(r"([A-Za-z0-9_.-]+):([^:].*)", re.DOTALL)
_EMPTY = "a mapping with the keys cluster, defaults, groups, hosts"
_BEGIN = "write cluster: NAME, and hosts: {a100-01: {address: 10.0.0.4}}"


class Bare(NamedTuple):
    """A word in braces that is no KEY: VALUE, and the key before it, whose value it may end."""

    path: KeyPath
    before: str
    is_close: bool


@dataclass
class Document:
    """A YAML file's value, with the line and the written text of each part of it."""

    file: Path
    text: str
    value: object = None
    lines: dict[KeyPath, int] = field(default_factory=dict)
    written: dict[KeyPath, str] = field(default_factory=dict)
    bare: list[Bare] = field(default_factory=list)
    problems: list[tuple[int, Problem]] = field(default_factory=list)
    _places: set[tuple[int, KeyPath]] = field(default_factory=set)

    def line(self, path: KeyPath) -> int:
        """Return the line of a value, or of the nearest mapping that should hold it."""
        while path not in self.lines and path:
            path = path[:-1]
        return self.lines.get(path, 1)

    def add(self, problem: Problem, line: int = 0) -> None:
        """Keep a problem; only the first one of each value is shown."""
        place = (line or self.line(problem.path), problem.path)
        if place not in self._places:
            self._places.add(place)
            self.problems.append((place[0], problem))

    def finish(self) -> None:
        """Raise all the problems kept so far, in the order of the file."""
        if self.problems:
            rows = dict(enumerate(self.text.split("\n"), 1))
            entries = sorted(self.problems, key=lambda entry: (entry[0], dotted(entry[1].path)))
            raise InventoryError(
                with_wide_sign(problem, rows.get(line, "")).at(self.file, line)
                for line, problem in entries
            )


def read(file: Path, text: str | None = None) -> Document:
    """The document in a file, or in the text that it will hold; InventoryError if there is none."""
    text = _text(file) if text is None else text.removeprefix("\ufeff")
    document = Document(file, text)
    if problem := of_another_program(text):
        document.add(problem, 1)
        document.finish()
    for line, problem in odd_blanks(text):
        document.add(problem, line)
    document.finish()
    try:
        node = yaml.compose(text, Loader=AliasFreeLoader)
        if node is None:
            document.add(Problem((), "an empty file", "", _EMPTY, _BEGIN), 1)
        else:
            document.value = _value(document, node, (), _line(node.start_mark))
    except yaml.YAMLError as error:
        document.problems = [unparsed(error, text)]
    except Refused as error:
        problem = Problem((), error.found, error.why, error.allowed, error.then)
        document.problems = [(error.line, problem)]
    if not isinstance(document.value, dict):
        document.finish()
    return document


def _text(file: Path) -> str:
    try:
        raw = content(file)
    except OSError as error:
        found = reason(error)
        limit = f" of at most {MOST_BYTES // 1_000_000} MB" if error.errno == errno.EFBIG else ""
        then = "give the path of a cluster file; gpu-node init writes one"
        problem = Problem((), found, "", f"a cluster file (YAML){limit}", then)
        raise InventoryError([problem.at(file)]) from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        name = shlex.quote(file.name)
        then = f"save it as UTF-8: file -i {name} names its encoding, and iconv changes it"
        if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            then = f"save it as UTF-8: iconv -f UTF-16 -t UTF-8 {name} >NEW.yml"
        problem = Problem((), NOT_UTF8, f"{raw[error.start]:#04x}", "a cluster file (YAML)", then)
        raise InventoryError([problem.at(file, line)]) from None


def _line(mark: Any) -> int:
    return mark.line + 1 if mark else 1


def _value(document: Document, node: yaml.Node, path: KeyPath, line: int) -> object:
    document.lines[path] = line
    if not isinstance(node, yaml.ScalarNode) and node.tag not in (f"{_TAG}map", f"{_TAG}seq"):
        _refuse_tag(document, node, path)
    if isinstance(node, yaml.MappingNode):
        return _mapping(document, node, path)
    if isinstance(node, yaml.SequenceNode):
        return [
            _value(document, item, (*path, place), _line(item.start_mark))
            for place, item in enumerate(node.value)
        ]
    return _scalar(document, node, path)


def _mapping(document: Document, node: yaml.MappingNode, path: KeyPath) -> dict[str, object]:
    value: dict[str, object] = {}
    before = ""
    for key_node, value_node in node.value:
        line = _line(key_node.start_mark)
        key = key_node.value if isinstance(key_node, yaml.ScalarNode) else "?"
        here = (*path, key)
        if not isinstance(key_node, yaml.ScalarNode):
            found, why = "a list or a mapping as a key", ""
            then = "put what begins with a bracket or a brace in quotes"
            if isinstance(key_node, yaml.MappingNode) and key_node.flow_style:
                why, then = "a template, {{ }}, is not filled in", "write the value in its place"
            document.add(Problem(path, found, why, "text", then), line)
        elif before and node.flow_style and _is_bare(document, key_node, value_node):
            is_close = document.text[key_node.start_mark.index - 1] == ","
            document.bare.append(Bare(here, before, is_close))
            value.setdefault(key, None)
            continue
        elif key_node.tag not in (f"{_TAG}str", f"{_TAG}merge"):
            why, then = "YAML does not read this key as text", f"write {json.dumps(key)}:"
            document.add(Problem(here, quoted(key), why, "text; put it in quotes", then), line)
        elif key in value:
            why, then = f"also on line {document.lines[here]}", "remove one of the two"
            if not path:  # a section: each of the two may have servers
                then = f"put what both have under one {key}"
            found = f"the key {quoted(key)} twice"
            document.add(Problem(here, found, why, "one of them", then), line)
        elif joined := _JOINED.fullmatch(key if key_node.style is None else ""):
            why, after = "no blank after ':'", f": {value_node.value}" if value_node.value else ""
            then = f"write {joined[1]}: {joined[2]}{after}"
            document.add(Problem(here, quoted(key), why, "KEY: VALUE", then), line)
        else:
            plain = isinstance(value_node, yaml.ScalarNode) and value_node.value
            at = _line(value_node.start_mark) if plain else line
            value[key] = _value(document, value_node, here, at)
            before = key if plain else ""
    return value


def _is_bare(document: Document, key: yaml.Node, value: yaml.Node) -> bool:
    """Whether a key in braces has neither a value nor a colon."""
    is_empty = value.start_mark == value.end_mark
    return is_empty and not document.text[key.end_mark.index :].lstrip().startswith(":")


def _scalar(document: Document, node: yaml.Node, path: KeyPath) -> object:
    text: str = node.value
    document.written[path] = text
    kind = node.tag.removeprefix(_TAG)
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() in ("yes", "true", "on")
    if kind == "int" and _PLAIN_INT.fullmatch(text):
        return int(text)
    if kind == "float":
        return float("nan")  # no key takes one; the message shows it as written
    if kind == "int":
        why = "YAML reads this as a number in another notation"
        allowed = "plain decimal digits, or text in quotes"
        document.add(Problem(path, quoted(text), why, allowed, kind="notation"))
    elif kind not in ("str", "timestamp"):
        _refuse_tag(document, node, path)
    return text


def _refuse_tag(document: Document, node: yaml.Node, path: KeyPath) -> None:
    found, allowed = f"the tag {quoted(node.tag)}", "a value without a tag"
    document.add(Problem(path, found, "", allowed, "remove the tag"))

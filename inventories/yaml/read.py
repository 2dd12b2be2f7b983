"""YAML with the line of every value, and without the surprises of YAML 1.1."""

import errno
import json
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from typing_extensions import override

from gpu_node.inventories.errors import InventoryError, KeyPath, Problem, dotted, quoted, reason
from gpu_node.inventories.regular_file import MOST_BYTES, NOT_UTF8, content, decoded
from gpu_node.inventories.yaml.guard import TAG as _TAG
from gpu_node.inventories.yaml.guard import LimitedLoader, Refused
from gpu_node.inventories.yaml.mend import unparsed
from gpu_node.inventories.yaml.signs import narrowed, odd_blanks

_PLAIN_INT = re.compile(r"-?(0|[1-9][0-9]{0,17})")
# A key with its value behind it, as YAML reads what lacks the blank between them.
_JOINED = re.compile(r"([A-Za-z0-9_.-]+):([^:].*)", re.DOTALL)
_EMPTY = "a mapping with the keys cluster, defaults, groups, hosts"
_BEGIN = "write cluster: NAME, and hosts: {a100-01: {address: 10.0.0.4}}"


@dataclass
class Document:
    """A YAML file's value, with the line and the written text of each part of it."""

    file: Path
    value: object = None
    lines: dict[KeyPath, int] = field(default_factory=dict)
    written: dict[KeyPath, str] = field(default_factory=dict)
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

    def move(self, old: KeyPath, new: KeyPath) -> None:
        """Make the problems of a value those of the key that it has now."""
        before, self.problems, self._places = self.problems, [], set()
        for line, problem in before:
            moved = problem._replace(path=new) if problem.path == old else problem
            self.add(moved, line)

    def finish(self) -> None:
        """Raise all the problems kept so far, in the order of the file."""
        if self.problems:
            entries = sorted(self.problems, key=lambda entry: (entry[0], dotted(entry[1].path)))
            raise InventoryError(problem.at(self.file, line) for line, problem in entries)


class _Loader(LimitedLoader):
    """The parser; an alias is a problem: it can loop or swell."""

    def __init__(self, text: str, document: Document) -> None:
        super().__init__(text)
        self._document = document

    @override
    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            return self._without(self.get_event())  # type: ignore[no-untyped-call]
        return super().compose_node(parent, index)

    def _without(self, alias: yaml.AliasEvent) -> yaml.Node:
        """Note the problem, and return an empty value in place of an alias."""
        why = "an alias hides where a value comes from"
        allowed = "the value; share it by defaults or groups"
        mark: Any = alias.start_mark
        then = f"write the value in place of *{alias.anchor}"
        self._document.add(Problem((), f"'*{alias.anchor}'", why, allowed, then), _line(mark))
        return yaml.ScalarNode(f"{_TAG}null", "", mark, mark)


def read(
    file: Path,
    text: str | None = None,
    problems_of: Callable[[str], Sequence[str]] = lambda text: (),
) -> Document:
    """The document in a file, or in the text that it will hold; InventoryError if there is none.

    `problems_of` returns the problems of a text that is YAML.
    """
    text = _text(file) if text is None else text.removeprefix("\ufeff")
    document = Document(file)
    for line, problem in odd_blanks(text):
        document.add(problem, line)
    document.finish()
    text, wide = narrowed(text, problems_of)
    try:
        node = _composed(document, text)
        document.finish()
        for line, problem in wide:
            document.add(problem, line)
        if node is None:
            document.add(Problem((), "an empty file", "", _EMPTY, _BEGIN), 1)
        else:
            document.value = _value(document, node, (), _line(node.start_mark))
    except yaml.YAMLError as error:
        document.problems = [*wide, unparsed(error, text, problems_of)]
    except Refused as error:
        then = "write the cluster in fewer of them"
        problem = Problem((), error.found, error.why, error.allowed, then)
        document.problems = [*wide, (error.line, problem)]
    if not isinstance(document.value, dict):
        document.finish()
    return document


def _composed(document: Document, text: str) -> yaml.Node | None:
    loader = _Loader(text, document)
    try:
        return loader.get_single_node()
    finally:
        loader.dispose()


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
        return decoded(raw)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        old, new = map(shlex.quote, (file.name, f"utf8-{file.name}"))
        convert = f"iconv -f {error.encoding} -t UTF-8 {old} >{new}"
        then = f"save it as UTF-8, or run {convert}"
        problem = Problem((), NOT_UTF8, error.reason, "a cluster file (YAML)", then)
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
    for key_node, value_node in _entries(node):
        line = _line(key_node.start_mark)
        key = key_node.value if isinstance(key_node, yaml.ScalarNode) else "?"
        here = (*path, key)
        if not isinstance(key_node, yaml.ScalarNode):
            found = "a list or a mapping as a key"
            then = "put what begins with a bracket or a brace in quotes"
            document.add(Problem(path, found, "", "text", then), line)
        elif key_node.tag not in (f"{_TAG}str", f"{_TAG}merge"):
            why, then = "YAML does not read this key as text", f"write {json.dumps(key)}:"
            document.add(Problem(here, quoted(key), why, "text; put it in quotes", then), line)
        elif key in value:
            why, then = f"also on line {document.lines[here]}", "remove one of the two"
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
    return value


def _entries(node: yaml.MappingNode) -> list[tuple[Any, Any]]:
    """Return the keys and values of a mapping; a comma in braces does not end {nofile: 65,536}."""
    entries: list[tuple[Any, Any]] = []
    for key, value in node.value:
        before = entries[-1][1] if entries else value
        is_rest = value.start_mark == value.end_mark and re.fullmatch("[0-9]{1,3}", str(key.value))
        if is_rest and before.tag == f"{_TAG}int":
            before.value += f",{key.value}"
        else:
            entries.append((key, value))
    return entries


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
        why = why if "," not in text else "a comma ends a value in braces"
        allowed = "plain decimal digits, or text in quotes"
        document.add(Problem(path, quoted(text), why, allowed, kind="notation"))
    elif kind not in ("str", "timestamp"):
        _refuse_tag(document, node, path)
    return text


def _refuse_tag(document: Document, node: yaml.Node, path: KeyPath) -> None:
    found, allowed = f"the tag {quoted(node.tag)}", "a value without a tag"
    document.add(Problem(path, found, "", allowed, f"remove {_shortened(node.tag)}"))


def _shortened(tag: str) -> str:
    """Return a tag as it is written."""
    return f"!!{tag.removeprefix(_TAG)}" if tag.startswith(_TAG) else tag

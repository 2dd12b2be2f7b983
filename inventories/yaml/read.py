"""YAML with the line of every value, and without the surprises of YAML 1.1."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gpu_node.inventories.errors import InventoryError, KeyPath, Problem, dotted, quoted, reason

_TAG = "tag:yaml.org,2002:"
_PLAIN_INT = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_TAB = "found character '\\t' that cannot start any token"
_EMPTY = "a mapping with the keys cluster, defaults, groups, hosts"


@dataclass
class Document:
    """A YAML file's value, with the line and the written text of each part of it."""

    file: Path
    value: object = None
    lines: dict[KeyPath, int] = field(default_factory=dict)
    written: dict[KeyPath, str] = field(default_factory=dict)
    problems: list[tuple[int, Problem]] = field(default_factory=list)

    def line(self, path: KeyPath) -> int:
        """Return the line of a value, or of the nearest mapping that should hold it."""
        while path not in self.lines and path:
            path = path[:-1]
        return self.lines.get(path, 1)

    def add(self, problem: Problem, line: int = 0) -> None:
        """Keep a problem; only the first one of each value is shown."""
        place = (line or self.line(problem.path), problem.path)
        if place not in [(known, other.path) for known, other in self.problems]:
            self.problems.append((place[0], problem))

    def finish(self) -> None:
        """Raise all the problems kept so far, in the order of the file."""
        if self.problems:
            found = sorted(self.problems, key=lambda entry: (entry[0], dotted(entry[1].path)))
            raise InventoryError(self._line_of(line, problem) for line, problem in found)

    def _line_of(self, line: int, problem: Problem) -> str:
        key = f" {dotted(problem.path)}:" if problem.path else ""
        return f"{self.file}:{line}:{key} {problem}"


def read(file: Path, text: str | None = None) -> Document:
    """The document in a file, or in the text that it will hold; InventoryError if there is none."""
    text = _text(file) if text is None else text.removeprefix("\ufeff")
    document = Document(file)
    try:
        _refuse_aliases(document, text)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is None:
            document.add(Problem((), "an empty file", "", _EMPTY), 1)
        else:
            document.value = _value(document, node, (), _line(node.start_mark))
    except yaml.YAMLError as error:
        document.problems = [_unparsed(error, text)]
    except RecursionError:
        document.problems = [(1, Problem((), "nesting too deep to read", "", _EMPTY))]
    if not isinstance(document.value, dict):
        document.finish()
    return document


def _text(file: Path) -> str:
    try:
        raw = file.read_bytes()
    except OSError as error:
        found = reason(error).removeprefix("is ")
        raise InventoryError([f"{file}: found {found}; allowed: a cluster file (YAML)"]) from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        problem = f"found bytes that are not UTF-8 text ({raw[error.start]:#04x})"
        raise InventoryError(
            [f"{file}:{line}: {problem}; allowed: a cluster file (YAML)"]
        ) from None


def _unparsed(error: yaml.YAMLError, text: str) -> tuple[int, Problem]:
    """Return the line and the problem of an error of the parser."""
    line, what, context = 1, "", ""
    if isinstance(error, yaml.MarkedYAMLError):
        if error.problem == _TAB and (mark := error.problem_mark):
            return _line(mark), Problem((), f"a tab in column {mark.column + 1}", "", "blanks")
        line = _line(error.problem_mark or error.context_mark)
        what, context = error.problem or "", error.context or ""
    elif isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        what = f"control character {error.character:#04x}"
    why = " ".join(", ".join(part for part in (context, what) if part).split())
    return line, Problem((), "text that is not YAML", why, "valid YAML")


def _line(mark: Any) -> int:
    return mark.line + 1 if mark else 1


def _refuse_aliases(document: Document, text: str) -> None:
    """Aliases can loop or swell, and hide which line a value comes from."""
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            why = "an alias hides where a value comes from"
            problem = Problem(
                (), f"'*{event.anchor}'", why, "the value; share it by defaults or groups"
            )
            document.add(problem, _line(event.start_mark))
    document.finish()


def _value(document: Document, node: yaml.Node, path: KeyPath, line: int) -> object:
    document.lines[path] = line
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
    for key_node, value_node in node.value:
        line = _line(key_node.start_mark)
        key = key_node.value if isinstance(key_node, yaml.ScalarNode) else "?"
        here = (*path, key)
        if key_node.tag not in (f"{_TAG}str", f"{_TAG}merge"):
            why = "YAML does not read this key as text"
            document.add(Problem(here, quoted(key), why, "text; put it in quotes"), line)
        elif key in value:
            why = f"also on line {document.lines[here]}"
            document.add(Problem(here, f"the key {quoted(key)} twice", why, "one of them"), line)
        else:
            plain = isinstance(value_node, yaml.ScalarNode) and value_node.value
            at = _line(value_node.start_mark) if plain else line
            value[key] = _value(document, value_node, here, at)
    return value


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
        document.add(Problem(path, quoted(text), why, "plain decimal digits, or text in quotes"))
    elif kind not in ("str", "timestamp"):
        document.add(Problem(path, f"the tag {quoted(node.tag)}", "", "a value without a tag"))
    return text

"""Hosts and groups of a cluster file come and go: every other byte of it stays what it is."""

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from inventories.problems import did_you_mean, reason, shown
from inventories.replacing import replace
from inventories.spelling import Style, lines, style_of
from inventories.trees import Split, Uneditable, split, tree

_BREAK = re.compile(r"\r\n|\n|\r")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r|\Z)")
_BOM = "\ufeff"


class EditError(Exception):
    """Why a cluster file is not edited, and what to do about it."""


class _InBraces(Uneditable):
    """A section, or the whole file, that has no lines to put one between."""


class _Entry(NamedTuple):
    """A key of a mapping and its value, as they stand in the text."""

    key: Node
    value: Node

    @property
    def column(self) -> int:
        return int(self.key.start_mark.column)

    @property
    def line(self) -> int:
        return int(self.key.start_mark.line)


def read(file: Path) -> str:
    """Return a file's text, line ends and all; EditError where there is none."""
    try:
        return file.read_bytes().decode("utf-8")
    except OSError as error:
        raise EditError(f"{file}: cannot be read: {reason(error)}") from None
    except UnicodeDecodeError:
        raise EditError(f"{file}: holds bytes that are not UTF-8 text; it is not edited") from None


def with_host(text: str, name: str, entry: Mapping[str, object]) -> str:
    """Return the text with a host behind the last one, written as that one is.

    EditError: there is one of this name, or no place where a line can be put.
    """
    return _with(text, "hosts", name, entry)


def with_group(text: str, name: str, entry: Mapping[str, object]) -> str:
    """Return the text with a group behind the last one; the first one comes before the hosts.

    EditError: there is one of this name, or no place where a line can be put.
    """
    return _with(text, "groups", name, entry)


def without_host(text: str, name: str) -> str:
    """Return the text without a host: what `with_host` put there, and the comments inside of it.

    Comments above it stay, as they may be about those that follow. EditError: there is no such
    host, no other one, or no line that is its own.
    """
    try:
        return _without(text, "hosts", name)
    except Uneditable as error:
        raise EditError(f"{error}; take {name} out of hosts by hand") from None


def diff(old: str, new: str, file: str) -> str:
    """Return what an edit changes, as `diff -u` shows it; the empty text where it is nothing."""
    told = difflib.unified_diff(_diffed(old), _diffed(new), file, file)
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in told
    )


def write(file: Path, old: str, new: str) -> None:
    """Put the new text in place of the old one, as a whole.

    EditError: the file no longer holds the old one, or cannot be written; it is as it was then.
    """
    try:
        if file.read_bytes() != old.encode("utf-8"):
            raise EditError(f"{file}: has changed meanwhile; nothing was written: run this again")
        replace(file, new.encode("utf-8"))
    except OSError as error:
        raise EditError(f"{file}: cannot be written: {reason(error)}; it is as it was") from None


def _diffed(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _with(text: str, section: str, name: str, entry: Mapping[str, object]) -> str:
    try:
        before = split(text, section, name)
        if before.own is not None:
            raise EditError(f"{section} has {name} already; allowed: another name")
        new = _put(text, section, name, entry)
        if split(new, section, name) != Split(before.rest, tree(json.dumps(entry))):
            raise Uneditable("more than this would change")
        return new
    except _InBraces as error:
        raise EditError(
            f"{error}; write it as a block, each entry on a line of its own, and run this again"
        ) from None
    except Uneditable as error:
        by_hand = "\n".join(lines(name, entry, Style()))
        raise EditError(f"{error}; add by hand, under {section}:\n{by_hand}") from None


def _put(text: str, section: str, name: str, entry: Mapping[str, object]) -> str:
    """Return the text with an entry behind the last one of its section."""
    text = _opened(text, section)
    sections = _sections(text)
    if section in sections:
        holder = sections[section]
        entries = list(_entries(section, holder))
        last = entries[-1] if entries else holder
        if entries:
            style = style_of(text, last.key, last.value, holder.column)
        else:
            style = _first_style(sections, holder)
        return _insert(text, _behind(text, last), lines(name, entry, style))
    if "hosts" not in sections:
        raise Uneditable("there is no hosts in it")
    hosts = sections["hosts"]
    rows = [f"{' ' * hosts.column}{section}:", *lines(name, entry, _first_style(sections, hosts))]
    place = _above(text, hosts)
    return _insert(text, place, [*rows, ""] if _is_blank_above(text, place) else rows)


def _opened(text: str, section: str) -> str:
    """Return the text without the braces of a section that has nothing in them: lines may come."""
    holder = _sections(text).get(section)
    if holder is None or not _is_flow(holder.value) or holder.value.value:
        return text
    start, end = holder.value.start_mark.index, holder.value.end_mark.index
    if not re.fullmatch(r"\{\s*\}", text[start:end]):  # an anchor, a tag or a comment is there
        raise _in_braces(section, holder)
    return text[:start].rstrip() + text[end:]


def _is_flow(node: Node) -> bool:
    return isinstance(node, MappingNode) and bool(node.flow_style)


def _in_braces(section: str, holder: _Entry) -> _InBraces:
    return _InBraces.on(holder.line, f"{section} is written in one {{...}}")


def _without(text: str, section: str, name: str) -> str:
    before = split(text, section, name)
    holder = _sections(text).get(section)
    entries = {str(each.key.value): each for each in _entries(section, holder)} if holder else {}
    if before.own is None:
        known = ", ".join(entries)
        why = f"none of {section}{did_you_mean(name, entries)}"
        raise EditError(f"found {shown(name)} ({why}); allowed: {known}")
    if len(entries) == 1:
        raise EditError(f"{name} is the last of {section} and cannot be removed: one has to stay")
    start, end = _line_start(text, entries[name]), _behind(text, entries[name])
    if not text[:end].endswith(("\n", "\r")):
        # The file's last line had no end before this one came, and has none when it is gone.
        start -= len(_last_break(text[:start]))
    new = text[:start] + text[end:]
    if split(new, section, name) != Split(before.rest, None):
        raise Uneditable("more than this would change")
    return new


# One edit looks for places in the same text several times.
@lru_cache(maxsize=4)
def _sections(text: str) -> Mapping[str, _Entry]:
    """Return what stands at the top of the text, by its keys."""
    try:
        root = YAML(typ="rt").compose(text)
    except MarkedYAMLError as error:
        line = error.problem_mark.line if error.problem_mark else 0
        raise Uneditable.on(line, f"no YAML: {error.problem}") from None
    # ruamel.yaml asserts that comments are in few places only.
    except (YAMLError, RecursionError, AssertionError):
        raise Uneditable.on(0, "no YAML that can be read") from None
    if not isinstance(root, MappingNode) or root.flow_style:
        raise _InBraces.on(0, "the whole file is written in one {...}")
    return {str(key.value): _Entry(key, value) for key, value in root.value}


def _entries(section: str, holder: _Entry) -> Iterator[_Entry]:
    """Yield the entries of a section, each of which has lines of its own."""
    node = holder.value
    if _is_flow(node) and node.value:
        raise _in_braces(section, holder)
    if isinstance(node, MappingNode):
        for key, value in node.value:
            yield _Entry(key, value)
    elif not isinstance(node, ScalarNode) or node.value:
        raise Uneditable.on(holder.line, f"{section} is no mapping of names")


def _first_style(sections: Mapping[str, _Entry], holder: _Entry) -> Style:
    """Return how the first entry of a section is written: indented as the hosts are."""
    hosts = list(_entries("hosts", sections["hosts"])) if "hosts" in sections else []
    step = hosts[0].column - sections["hosts"].column if hosts else 2
    return Style(column=holder.column + step, step=step, flow=False)


def _end(entry: _Entry) -> int:
    """Return where an entry ends; a parser finds a block's end behind the comments after it."""
    key, node = entry
    while isinstance(node, MappingNode | SequenceNode) and not node.flow_style and node.value:
        last = node.value[-1]
        key, node = last if isinstance(node, MappingNode) else (key, last)
    # A value that is left empty has its place somewhere after the key, and no text of its own.
    is_empty = isinstance(node, ScalarNode) and not node.value and node.style is None
    return int(key.end_mark.index if is_empty else node.end_mark.index)


def _behind(text: str, entry: _Entry) -> int:
    """Return where the line after an entry begins, and after the comments that are inside of it."""
    place = _end(entry)
    if not text[:place].endswith(("\n", "\r")):
        rest = _line(text, place)
        if not re.fullmatch(r"\s*:?\s*(#.*)?", rest.rstrip("\r\n")):
            raise Uneditable.on(entry.line, "something else stands on a line with this")
        place += len(rest)
    ahead = place
    while row := _line(text, ahead):
        ahead += len(row)
        indent = len(row) - len(row.lstrip(" "))
        if row[indent:].startswith("#") and indent > entry.column:
            place = ahead
        elif row.strip():
            break
    return place


def _line(text: str, place: int) -> str:
    """Return what is left of a line, with its end."""
    found = _LINE.match(text, place)
    return found[0] if found else ""


def _line_start(text: str, entry: _Entry) -> int:
    """Return where an entry's line begins, on which nothing stands before it."""
    place = int(entry.key.start_mark.index)
    start = max(text.rfind("\n", 0, place), text.rfind("\r", 0, place)) + 1
    start += len(_BOM) if text.startswith(_BOM) and start == 0 else 0
    if text[start:place].strip(" "):
        raise Uneditable.on(entry.line, "something else stands on a line with this")
    return start


def _above(text: str, entry: _Entry) -> int:
    """Return where the comments begin that stand directly above an entry, else its line."""
    place = _line_start(text, entry)
    rows = re.findall(_LINE, text[:place])
    for row in reversed([each for each in rows if each]):
        if not row.startswith(f"{' ' * entry.column}#"):
            break
        place -= len(row)
    return place


def _is_blank_above(text: str, place: int) -> bool:
    rows = [each for each in re.findall(_LINE, text[:place]) if each]
    return bool(rows) and not rows[-1].strip()


def _last_break(text: str) -> str:
    """Return how the last line that has an end ends."""
    return str((_BREAK.findall(text) or ["\n"])[-1])


def _insert(text: str, place: int, rows: list[str]) -> str:
    """Return the text with lines at the start of a line, or behind one that has no end."""
    end = _last_break(text[:place] if _BREAK.search(text[:place]) else text)
    if place and not text[:place].endswith(("\n", "\r", _BOM)):
        return text[:place] + "".join(f"{end}{row}" for row in rows) + text[place:]
    return text[:place] + "".join(f"{row}{end}" for row in rows) + text[place:]

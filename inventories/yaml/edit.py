"""Insert and remove hosts and groups of a cluster file: every other byte of it stays."""

import difflib
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from gpu_node.inventories.atomic_write import replace
from gpu_node.inventories.errors import did_you_mean, listed, reason, shown, worded
from gpu_node.inventories.yaml.guard import AliasFreeLoader, Refused

_BOM = "\ufeff"
_BREAK = re.compile(r"\r\n|\n|\r")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)")


AGAIN = "run this again"


class EditError(Exception):
    """Why a cluster file is not edited, and what to do about it; `line` is 0 for no line."""

    def __init__(self, problem: str, line: int = 0) -> None:
        super().__init__(f"line {line}: {problem}" if line else problem)
        self.problem, self.line = problem, line

    def at(self, file: object) -> str:
        """Return the problem with its file."""
        return f"{file}{f':{self.line}' if self.line else ''}: {self.problem}"


class _Uneditable(ValueError):
    """What of a text cannot be edited, and on which line, which parsers count from 0.

    `then` is what to do before it takes another entry.
    """

    def __init__(self, what: str, line: int = -1, then: str = "") -> None:
        super().__init__(what)
        self.line, self.then = line + 1, then

    def error(self, then: str) -> EditError:
        """Return the problem with the next step."""
        return EditError(worded(str(self), then=then), self.line)


class _Entry(NamedTuple):
    """A key of a mapping and its value, with their positions in the text."""

    key: Node
    value: Node

    @property
    def column(self) -> int:
        return int(self.key.start_mark.column)

    @property
    def is_flow(self) -> bool:
        """Whether the value is written in braces."""
        return isinstance(self.value, MappingNode) and bool(self.value.flow_style)

    @property
    def line(self) -> int:
        return int(self.key.start_mark.line)


def write(file: Path, old: str, new: str) -> None:
    """Replace the old text by the new one, as a whole.

    EditError: the file no longer holds the old text, or cannot be written; it is unchanged then.
    """
    try:
        if file.read_bytes() != old.encode("utf-8"):
            raise EditError(
                f"{file}: {worded('a change in the meantime', 'nothing was written', '', AGAIN)}"
            )
        replace(file, new.encode("utf-8"))
    except OSError as error:
        why = "cannot be written; it is unchanged"
        raise EditError(f"{file}: {worded(reason(error), why)}") from None


def diff(old: str, new: str, file: str) -> str:
    """Return what an edit changes, as `diff -u` shows it; the empty text where it is nothing."""
    before, after = (re.findall(r"[^\n]*\n|[^\n]+", text) for text in (old, new))
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in difflib.unified_diff(before, after, file, file)
    )


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
        rest, own = _split(text, "hosts", name)
        if len(own) > 1:
            raise _Uneditable(f"{name} twice under hosts")
        new = _whole_lines(text, lambda body: _cut(body, name))
        return _checked(new, "hosts", name, (rest, []))
    except _Uneditable as error:
        raise error.error(f"remove {name} from hosts manually") from None


def _with(text: str, section: str, name: str, entry: Mapping[str, object]) -> str:
    try:
        rest, own = _split(text, section, name)
        if own:
            raise EditError(f"{section}: {worded(shown(name), 'there already', 'another name')}")
        new = _whole_lines(text, lambda body: _put(body, section, name, entry))
        return _checked(new, section, name, (rest, [_content(yaml.compose(json.dumps(entry)))]))
    except _Uneditable as error:
        then = error.then or f"add manually, under {section}: {_pair(name, entry)}"
        raise error.error(then) from None


def _whole_lines(text: str, change: Callable[[str], str]) -> str:
    """Return the text after a change that sees no byte order mark, and an end of the last line."""
    bom = _BOM if text.startswith(_BOM) else ""
    ends = _BREAK.findall(text) or ["\n"]
    end = "" if text.endswith(ends[-1]) else ends[-1]
    return bom + change(text.removeprefix(bom) + end).removesuffix(end)


def _put(text: str, section: str, name: str, entry: Mapping[str, object]) -> str:
    """Return the text with an entry behind the last one of its section."""
    text = _without_braces(text, section)
    sections = _sections(text)
    if holder := sections.get(section):
        entries = _entries(section, holder)
        last = entries[-1] if entries else holder
        first = None if entries else _first_style(sections, holder)
        rows = _lines(name, entry, first or _style_of(last, holder))
        place = _behind(text, last)
    elif hosts := sections.get("hosts"):
        place = _above(text, hosts)
        blank = ["" for row in _LINE.findall(text[:place])[-1:] if not row.strip()]
        rows = _lines(name, entry, _first_style(sections, hosts))
        rows = [f"{' ' * hosts.column}{section}:", *rows, *blank]
    else:
        raise _Uneditable("no hosts")
    end = _BREAK.findall(text[:place] or text)[-1]
    return text[:place] + "".join(row + end for row in rows) + text[place:]


def _cut(text: str, name: str) -> str:
    """Return the text without a host."""
    sections = _sections(text)
    hosts = _entries("hosts", sections["hosts"]) if "hosts" in sections else []
    known = {str(host.key.value): host for host in hosts}
    if name not in known:
        why = f"not under hosts{did_you_mean(name, known)}"
        raise EditError(f"hosts: {worded(shown(name), why, listed(known))}")
    if len(known) == 1:
        why, then = "the last host: a cluster needs one", "add another host first"
        raise EditError(f"hosts: {worded(shown(name), why, 'a host beside others', then)}")
    return text[: _line_start(text, known[name])] + text[_behind(text, known[name]) :]


def _without_braces(text: str, section: str) -> str:
    """Return the text without the braces of a section that has no entries yet."""
    holder = _sections(text).get(section)
    if holder is None or not holder.is_flow or holder.value.value:
        return text
    start, end = holder.value.start_mark.index, holder.value.end_mark.index
    if not re.fullmatch(r"\{\s*\}", text[start:end]):  # an anchor, a tag or a comment is there
        raise _in_braces(section, holder.line)
    return text[:start].rstrip() + text[end:]


def _in_braces(what: str, line: int) -> _Uneditable:
    """Return the error of a section, or the whole file, that has no lines to put one between."""
    then = "write it as a block, each entry on a separate line, and run this again"
    return _Uneditable(f"{what} in one {{...}}", line, then)


def _sections(text: str) -> Mapping[str, _Entry]:
    """Return what is at the top of the text, by its keys."""
    root = _composed(text)
    if not isinstance(root, MappingNode) or root.flow_style:
        raise _in_braces("the whole file", 0)
    return {str(key.value): _Entry(key, value) for key, value in root.value}


def _entries(section: str, holder: _Entry) -> list[_Entry]:
    """Return the entries of a section, each of which has lines of its own."""
    node = holder.value
    if holder.is_flow and node.value:
        raise _in_braces(section, holder.line)
    if isinstance(node, MappingNode):
        return [_Entry(key, value) for key, value in node.value]
    if not isinstance(node, ScalarNode) or node.value:
        raise _Uneditable(f"{section} without a mapping of names", holder.line)
    return []


class _Style(NamedTuple):
    """How an entry is written: the columns of its name and of what is inside, or in braces."""

    column: int
    inner: int
    is_flow: bool = False


def _style_of(entry: _Entry, holder: _Entry) -> _Style:
    """Return how an entry of a section is written."""
    if entry.is_flow or not isinstance(entry.value, MappingNode):
        step = abs(entry.column - holder.column)
        return _Style(entry.column, entry.column + step, entry.is_flow)
    return _Style(entry.column, int(entry.value.value[0][0].start_mark.column))


def _first_style(sections: Mapping[str, _Entry], holder: _Entry) -> _Style:
    """Return how the first entry of a section is written: indented as the hosts are."""
    hosts = _entries("hosts", sections["hosts"]) if "hosts" in sections else []
    step = hosts[0].column - sections["hosts"].column if hosts else 2
    return _Style(holder.column + step, holder.column + 2 * step)


def _lines(name: str, entry: Mapping[str, object], style: _Style) -> list[str]:
    """Return the lines of an entry, without their ends; a mapping inside is in braces."""
    if style.is_flow or not entry:
        return [f"{' ' * style.column}{_pair(name, entry)}"]
    inside = [f"{' ' * style.inner}{_pair(key, value)}" for key, value in entry.items()]
    return [f"{' ' * style.column}{_pair(name, {}).removesuffix(' {}')}", *inside]


def _pair(key: str, value: object) -> str:
    """Return a key and its value in one line of YAML."""
    whole = yaml.safe_dump(
        {key: value},
        default_flow_style=True,
        allow_unicode=True,
        sort_keys=False,
        width=float("inf"),
    )
    return whole.removesuffix("\n")[1:-1]


def _line_start(text: str, entry: _Entry) -> int:
    """Return where the line of an entry's key begins; _Uneditable where something is before it."""
    key = int(entry.key.start_mark.index)
    start = max(text.rfind("\n", 0, key), text.rfind("\r", 0, key)) + 1
    if text[start:key].strip(" "):
        raise _Uneditable("another value on the same line", entry.line)
    return start


def _above(text: str, entry: _Entry) -> int:
    """Return where the comments directly above an entry begin, else its line."""
    place = _line_start(text, entry)
    for row in reversed(_LINE.findall(text[:place])):
        if not row.startswith(f"{' ' * entry.column}#"):
            break
        place -= len(row)
    return place


def _behind(text: str, entry: _Entry) -> int:
    """Return where the line after an entry and the comments inside of it begins."""
    place = _end(entry)
    if not text[:place].endswith(("\n", "\r")):
        rest = _LINE.match(text, place)
        if not rest or not re.fullmatch(r"\s*:?\s*(#.*)?\s*", rest[0]):
            raise _Uneditable("another value on the same line", entry.line)
        place = rest.end()
    for row in _LINE.finditer(text, place):
        comment = row[0].lstrip(" ")
        if comment.startswith("#") and len(row[0]) - len(comment) > entry.column:
            place = row.end()
        elif comment.strip():
            break
    return place


def _end(entry: _Entry) -> int:
    """Return where an entry ends; the mark of a block is behind the comments after it."""
    key, node = entry
    while isinstance(node, MappingNode | SequenceNode) and not node.flow_style and node.value:
        last = node.value[-1]
        key, node = last if isinstance(node, MappingNode) else (key, last)
    # A value that is left empty has its mark somewhere after the key.
    is_empty = isinstance(node, ScalarNode) and not node.value and node.style is None
    return int(key.end_mark.index if is_empty else node.end_mark.index)


_Contents = tuple[list[object], list[object]]


def _checked(text: str, section: str, name: str, wanted: _Contents) -> str:
    """Return an edited text that holds what it is to hold, for the parser of cluster files."""
    if _split(text, section, name) != wanted:
        raise _Uneditable("a file whose edit would change more than this entry")
    return text


def _split(text: str, section: str, name: str) -> _Contents:
    """Return what a text holds besides an entry of a section, and what it holds in that entry.

    A section without entries counts as none. _Uneditable: it is no YAML, or has aliases.
    """
    root = _composed(text)
    if not isinstance(root, MappingNode):
        raise _Uneditable("no mapping", 0)
    rest: list[object] = [root.tag]
    own: list[object] = []
    for key, value in root.value:
        inner = value.value if key.value == section else None
        if inner and isinstance(value, MappingNode):
            own += [_content(each) for known, each in inner if known.value == name]
            others = [pair for pair in inner if pair[0].value != name]
            rest += [(section, value.tag, *map(_content, pair)) for pair in others]
        elif inner is None or inner not in ("", "~", "null", []):
            rest.append((_content(key), _content(value)))
    return rest, own


def _content(node: Node | None) -> object:
    """Return what a node holds, to be compared: order counts, spelling does not."""
    if isinstance(node, MappingNode):
        for key, _ in node.value:
            if key.tag.endswith(":merge"):
                raise _Uneditable("a merged mapping (<<), which is not edited", key.start_mark.line)
        return node.tag, [(_content(key), _content(value)) for key, value in node.value]
    if isinstance(node, SequenceNode):
        return node.tag, [_content(each) for each in node.value]
    return node and (node.tag, node.value)


def _composed(text: str) -> Node | None:
    """Return the nodes of a text; _Uneditable says on which line it fails."""
    try:
        return yaml.compose(text, Loader=AliasFreeLoader)
    except Refused as error:
        raise _Uneditable(error.found, error.line - 1) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _Uneditable(
            f"text that is not YAML ({error.problem})", mark.line if mark else 0
        ) from None
    except (yaml.YAMLError, RecursionError):
        raise _Uneditable("text that is not YAML", 0) from None

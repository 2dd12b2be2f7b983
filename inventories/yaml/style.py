"""An entry of a cluster file as lines of YAML, written as its neighbours are."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode


@dataclass(frozen=True)
class Style:
    """How entries are written: the column of their names, and of what is inside of them.

    `flow`: {address: ..., group: ...} behind the name; `inner_flow`: the mappings inside of an
    entry; `padded`: with blanks inside of the braces; `quotes`: the quote that a key's value has,
    and that of the names under "".
    """

    column: int = 2
    step: int = 2
    flow: bool = True
    inner_flow: bool = True
    padded: bool = False
    quotes: Mapping[str, str] = field(default_factory=dict)


def style_of(text: str, key: Node, value: Node, above: int) -> Style:
    """Return how an entry of a text is written; `above` is the column of its section's name."""
    mappings = [*_mappings(value)]
    flows = [each for each in mappings if each.flow_style]
    column = int(key.start_mark.column)
    is_block = isinstance(value, MappingNode) and not value.flow_style
    inner = int(value.value[0][0].start_mark.column) if is_block else 0
    return Style(
        column=column,
        step=inner - column if is_block else column - above,
        flow=isinstance(value, MappingNode) and bool(value.flow_style),
        inner_flow=all(each.flow_style for each in mappings[1:]),
        padded=any(text[each.start_mark.index + 1] in " \r\n" for each in flows),
        quotes={**dict(_quotes(mappings)), "": _quote(key)},
    )


def _mappings(node: Node) -> Iterator[MappingNode]:
    if isinstance(node, MappingNode):
        yield node
        for _, value in node.value:
            yield from _mappings(value)


def _quotes(mappings: list[MappingNode]) -> Iterator[tuple[str, str]]:
    for mapping in mappings:
        for key, value in mapping.value:
            yield str(key.value), _quote(value)


def _quote(node: Node) -> str:
    style = node.style if isinstance(node, ScalarNode) else None
    return style if style in ("'", '"') else ""


def lines(name: str, entry: Mapping[str, object], style: Style) -> list[str]:
    """Return the lines of one entry, without their ends; values are text, numbers, mappings."""
    key = _scalar(name, style.quotes.get("", ""))
    if style.flow or not entry:
        return [f"{' ' * style.column}{key}: {_flow(entry, style)}"]
    first = f"{' ' * style.column}{key}:"
    return [first, *_block(entry, style, style.column + style.step)]


def _block(entry: Mapping[str, object], style: Style, column: int) -> Iterator[str]:
    for key, value in entry.items():
        if isinstance(value, Mapping) and value and not style.inner_flow:
            yield f"{' ' * column}{_scalar(key)}:"
            yield from _block(value, style, column + style.step)
        else:
            yield f"{' ' * column}{_scalar(key)}: {_value(key, value, style)}"


def _flow(entry: Mapping[str, object], style: Style) -> str:
    inside = ", ".join(f"{_scalar(key)}: {_value(key, entry[key], style)}" for key in entry)
    return f"{{ {inside} }}" if style.padded and inside else f"{{{inside}}}"


def _value(key: str, value: object, style: Style) -> str:
    if isinstance(value, Mapping):
        return _flow(value, style)
    return _scalar(value, style.quotes.get(key, ""))


def _scalar(value: object, quote: str = "") -> str:
    """Return a value as YAML: text in quotes where it needs them, or where its neighbours have."""
    if not isinstance(value, str):
        return json.dumps(value)
    if quote == "'" and value.isprintable():
        return f"""'{value.replace("'", "''")}'"""
    if not quote and _reads_as_itself(value):
        return value
    return json.dumps(value, ensure_ascii=False)


# Four texts are read by each of two parsers, and most words come again.
@lru_cache(maxsize=256)
def _reads_as_itself(text: str) -> bool:
    """Whether text without quotes is that very text: inside braces or not, in YAML 1.1 and 1.2."""
    return all(
        read(f"{before}{text}: {text}{after}") == {text: text}
        for read in (_read_1_1, _read_1_2)
        for before, after in (("", ""), ("{", "}"))
    )


def _read_1_1(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):
        return None


def _read_1_2(text: str) -> Any:
    try:
        return YAML(typ="safe", pure=True).load(text)
    except (YAMLError, ValueError):
        return None

"""An entry of a cluster file as lines of YAML, written like the entry above it."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode

# Text that needs no quotes, inside of braces or not, unless YAML takes it for a number or such.
_PLAIN = re.compile(r"[\w./~](?:(?: |:+)?[\w./~@%+=-])*")
# YAML 1.1 and 1.2 differ in what they take for a number.
_RESOLVERS = (
    (yaml.resolver.Resolver(), yaml.ScalarNode),
    (YAML(typ="safe", pure=True).resolver, ScalarNode),
)


@dataclass(frozen=True)
class Style:
    """How an entry is written: the column of its name, and the form of its mappings and texts.

    `step` is the indentation of what is inside. `flow` is true where the entry is written in
    braces behind its name, `inner_flow` where the mappings inside of it are, `padded` where braces
    have blanks inside. `quotes` holds the quote of each key's value, and under "" that of the name.
    """

    column: int = 2
    step: int = 2
    flow: bool = True
    inner_flow: bool = True
    padded: bool = False
    quotes: Mapping[str, str | None] = field(default_factory=dict)


def style_of(text: str, key: Node, value: Node, above: int) -> Style:
    """Return how an entry of a text is written; `above` is the column of its section's name."""
    column = int(key.start_mark.column)
    mappings = list(_mappings(value))
    scalars = [
        ("", key),
        *((str(name.value), each) for node in mappings for name, each in node.value),
    ]
    is_flow = isinstance(value, MappingNode) and bool(value.flow_style)
    inner = above if is_flow or not mappings else int(value.value[0][0].start_mark.column)
    return Style(
        column=column,
        step=abs(inner - column),
        flow=is_flow,
        inner_flow=all(mapping.flow_style for mapping in mappings[1:]),
        padded=any(
            text[mapping.start_mark.index + 1].isspace()
            for mapping in mappings
            if mapping.flow_style
        ),
        quotes={name: each.style for name, each in scalars if isinstance(each, ScalarNode)},
    )


def _mappings(node: Node) -> Iterator[MappingNode]:
    if isinstance(node, MappingNode):
        yield node
        for _, value in node.value:
            yield from _mappings(value)


def lines(name: str, entry: Mapping[str, object], style: Style) -> list[str]:
    """Return the lines of one entry, without their ends; values are text, numbers, mappings."""
    return list(_lines(_scalar(name, style.quotes.get("")), entry, style, style.column, style.flow))


def _lines(key: str, value: object, style: Style, column: int, is_flow: bool) -> Iterator[str]:
    """Yield the lines of a mapping's key, already in its quotes, and of its value."""
    if isinstance(value, Mapping) and value and not is_flow:
        yield f"{' ' * column}{key}:"
        for name, inner in value.items():
            yield from _lines(name, inner, style, column + style.step, style.inner_flow)
    else:
        yield f"{' ' * column}{key}: {_inline(key, value, style)}"


def _inline(key: str, value: object, style: Style) -> str:
    if not isinstance(value, Mapping):
        return _scalar(value, style.quotes.get(key))
    inside = ", ".join(f"{name}: {_inline(name, inner, style)}" for name, inner in value.items())
    return f"{{ {inside} }}" if style.padded and inside else f"{{{inside}}}"


def _scalar(value: object, quote: str | None = None) -> str:
    """Return a value as YAML: text in quotes where it needs them, or where its neighbour has."""
    if not isinstance(value, str):
        return json.dumps(value)
    if quote == "'" and value.isprintable():
        return f"""'{value.replace("'", "''")}'"""
    return value if quote != '"' and _is_plain(value) else json.dumps(value, ensure_ascii=False)


def _is_plain(text: str) -> bool:
    """Whether YAML reads text without quotes as that text."""
    tags = {str(each.resolve(kind, text, (True, False))) for each, kind in _RESOLVERS}
    return bool(_PLAIN.fullmatch(text)) and tags == {"tag:yaml.org,2002:str"}

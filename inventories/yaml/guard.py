"""YAML that another program or another user wrote: parsed within limits, and into plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import yaml
from typing_extensions import override

TAG = "tag:yaml.org,2002:"
# The parser's time grows with the square of the levels. It needs 20 us for each value, and what it
# does with the entries of a mapping may grow with their square.
MOST_LEVELS, MOST_ENTRIES, MOST_VALUES = 50, 2_000, 45_000
# What reads numbers takes time that grows with the square of their digits (1:59:59 is one, too).
_LONGEST_NUMBER = 40
# A scalar that is merged where it is a key.
MERGE = "<<"
_NUMBERS_AND_WORDS: Mapping[str, Callable[[Any, yaml.Node], object]] = {
    f"{TAG}{kind}": yaml.SafeLoader.yaml_constructors[f"{TAG}{kind}"]
    for kind in ("null", "bool", "int", "float")
}
_TEXTS = (f"{TAG}str", f"{TAG}timestamp")


class Refused(Exception):
    """What a text has that no honest file has; `line` is where."""

    def __init__(
        self, line: int, found: str, why: str, allowed: str, then: str = "write fewer of them"
    ) -> None:
        super().__init__(found)
        self.line, self.found, self.why, self.allowed = line, found, why, allowed
        self.then = then


class LimitedLoader(yaml.SafeLoader):
    """The parser, with limits on levels and values."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._level = self._count = 0

    @override
    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self._count += 1
        if self._level > MOST_LEVELS:
            why, allowed = f"more than {MOST_LEVELS} levels", f"at most {MOST_LEVELS} levels"
            raise Refused(self.line + 1, "nesting too deep", why, allowed)
        if parent is not None and len(parent.value) >= MOST_ENTRIES:
            found = f"more than {MOST_ENTRIES:,} entries"
            allowed = f"at most {MOST_ENTRIES:,} in one place"
            raise Refused(self.line + 1, found, "", allowed)
        if self._count > MOST_VALUES:
            found, allowed = f"more than {MOST_VALUES:,} values", f"at most {MOST_VALUES:,}"
            raise Refused(self.line + 1, found, "", allowed)
        self._level += 1
        node = super().compose_node(parent, index)
        self._level -= 1
        return node


class AliasFreeLoader(LimitedLoader):
    """Refuses an alias: it can loop or swell."""

    @override
    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            found, why = f"the alias *{event.anchor}"[:60], "it hides where a value comes from"
            then = "write the value in its place, or once, under defaults or a group"
            raise Refused(line, found, why, "plain YAML", then)
        return super().compose_node(parent, index)


class _PlainLoader(AliasFreeLoader):
    """Refuses an anchor and a merged mapping, too, before anything is built of them."""

    @override
    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        line, allowed = event.start_mark.line + 1, "plain YAML"
        is_alias = isinstance(event, yaml.AliasEvent)
        if event.anchor is not None and not is_alias:
            raise Refused(line, f"the anchor &{str(event.anchor)[:40]}", "", allowed)
        if isinstance(event, yaml.ScalarEvent) and event.value == MERGE and event.implicit[0]:
            raise Refused(line, "a merged mapping (<<)", "", allowed)
        return super().compose_node(parent, index)


def plain(text: str) -> object:
    """Return the value of a YAML text: mappings with texts as keys, lists, texts and numbers.

    Raises Refused, or yaml.YAMLError.
    """
    loader = _PlainLoader(text)
    try:
        node = loader.get_single_node()
        return None if node is None else _value(loader, node)
    finally:
        loader.dispose()


def _value(loader: _PlainLoader, node: yaml.Node) -> object:
    if isinstance(node, yaml.MappingNode) and node.tag == f"{TAG}map":
        # As texts, numbers cannot be chosen so that all of them have one hash.
        return {_key(key): _value(loader, value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode) and node.tag == f"{TAG}seq":
        return [_value(loader, each) for each in node.value]
    if isinstance(node, yaml.ScalarNode) and node.tag in _TEXTS:
        return str(node.value)
    if isinstance(node, yaml.ScalarNode) and node.tag in _NUMBERS_AND_WORDS:
        return _number_or_word(loader, node)
    line = node.start_mark.line + 1 if node.start_mark else 0
    raise Refused(line, f"the tag {node.tag.removeprefix(TAG)[:40]!r}", "", "a value without a tag")


def _key(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode):
        return str(node.value)
    line = node.start_mark.line + 1 if node.start_mark else 0
    raise Refused(line, "a list or a mapping as a key", "", "a text")


def _number_or_word(loader: _PlainLoader, node: yaml.ScalarNode) -> object:
    """Return a number, true, false or nothing; a text where it is none that is so short."""
    if len(node.value) > _LONGEST_NUMBER:
        return str(node.value)
    try:
        return _NUMBERS_AND_WORDS[node.tag](loader, node)
    except (ValueError, LookupError):  # `!!int x`
        return str(node.value)

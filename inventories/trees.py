"""What a text of YAML says, for comparing two of them: order counts, spelling does not."""

from functools import lru_cache
from typing import NamedTuple

import yaml
from typing_extensions import Self, override

Pair = tuple["Tree", "Tree"]


class Tree(NamedTuple):
    """A value: its tag, and its text, or what is in it."""

    tag: str
    said: "str | tuple[Tree | Pair, ...]"


class Uneditable(ValueError):
    """What of a text cannot be edited, and on which line."""

    @classmethod
    def on(cls, line: int, what: str) -> Self:
        """Say on which line, counted from 0 as parsers do."""
        return cls(f"line {line + 1}: {what}")


class Split(NamedTuple):
    """A text without one entry of a section, and what that entry says; None: it is not there."""

    rest: Tree
    own: Tree | None


class _WithoutAliases(yaml.SafeLoader):
    """The parser that cluster files are read with; an alias is an error."""

    @override
    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError
        return super().compose_node(parent, index)


# One edit compares the same texts several times.
@lru_cache(maxsize=4)
def tree(text: str) -> Tree:
    """Return what a text says, by the parser that cluster files are read with.

    Uneditable: it is no YAML, or what one place says depends on another.
    """
    try:
        node = _composed(text)
        if not isinstance(node, yaml.MappingNode):
            raise Uneditable.on(0, "this is no mapping")
        return _tree(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise Uneditable.on(mark.line if mark else 0, f"no YAML: {error.problem}") from None
    except (yaml.YAMLError, RecursionError):
        raise Uneditable.on(0, "no YAML that can be read") from None


def _composed(text: str) -> yaml.Node | None:
    """Return a text's nodes; Uneditable or YAMLError: the first alias comes before other errors."""
    try:
        return yaml.compose(text, Loader=_WithoutAliases)
    except yaml.YAMLError:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            # An anchor that nothing refers to is a note; no cluster file may have aliases.
            if isinstance(event, yaml.AliasEvent):
                line = event.start_mark.line if event.start_mark else 0
                raise Uneditable.on(line, "an alias is not edited") from None
        return yaml.compose(text, Loader=yaml.SafeLoader)


def split(text: str, section: str, name: str) -> Split:
    """Return what a text says without one entry, and that; a section left empty is none."""
    own: Tree | None = None
    rest: list[Pair] = []
    whole = tree(text)
    for key, value in _pairs(whole):
        if key.said == section:
            found = [each for each in _pairs(value) if each[0].said == name]
            if len(found) > 1:
                raise Uneditable(f"{section} has {name} twice")
            own = found[0][1] if found else own
            left = tuple(each for each in _pairs(value) if each[0].said != name)
            if not left and (found or value.said in ("", "~", "null", ())):
                continue
            value = Tree(value.tag, left) if left else value
        rest.append((key, value))
    return Split(Tree(whole.tag, tuple(rest)), own)


def _pairs(value: Tree) -> list[Pair]:
    """Return the entries of a mapping; none of anything else."""
    if not value.tag.endswith(":map") or isinstance(value.said, str):
        return []
    return [each for each in value.said if not isinstance(each, Tree)]


def _tree(node: yaml.Node) -> Tree:
    if isinstance(node, yaml.MappingNode):
        for key, _ in node.value:
            if key.tag.endswith(":merge"):
                raise Uneditable.on(key.start_mark.line, "a merged mapping (<<) is not edited")
        return Tree(node.tag, tuple((_tree(key), _tree(value)) for key, value in node.value))
    if isinstance(node, yaml.SequenceNode):
        return Tree(node.tag, tuple(map(_tree, node.value)))
    return Tree(node.tag, str(node.value))

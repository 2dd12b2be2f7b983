"""What the Tab key offers for a parameter; docs/how-to/shell-and-editor.md sets it up."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import click
from click.shell_completion import CompletionItem


def files(_: click.Context, __: click.Parameter, begun: str) -> list[CompletionItem]:
    """Leave the names of files to the shell."""
    return [CompletionItem(begun, type="file")]


def folders(_: click.Context, __: click.Parameter, begun: str) -> list[CompletionItem]:
    """Leave the names of folders to the shell."""
    return [CompletionItem(begun, type="dir")]


def areas(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    """Offer the areas."""
    from gpu_node.facts.areas import AREAS

    return _of(AREAS, begun)


def rules(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    """Offer the rules and the areas."""
    from gpu_node.facts.areas import AREAS
    from gpu_node.inventories.fields.switched import rule_names

    return _of((*AREAS, *rule_names()), begun)


def several_areas(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    """Offer the areas that a list with commas does not have yet."""
    from gpu_node.facts.areas import AREAS

    *given, _last = begun.split(",")
    return _of((",".join([*given, area]) for area in AREAS if area not in given), begun)


def nodes(context: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """Offer the nodes of the cluster file; a Python inventory may contact other machines."""
    return _of(_names(context, "hosts"), begun)


def limits(context: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """Offer the nodes and groups of the cluster file."""
    return _of([*_names(context, "hosts"), *_names(context, "groups")], begun)


def chosen(context: click.Context, param: click.Parameter, begun: str) -> list[str]:
    """Offer what a report can be about: areas, rules and nodes."""
    return [*rules(context, param, begun), *nodes(context, param, begun)]


def _names(context: click.Context, section: str) -> Iterable[object]:
    """Return the names in a section of the cluster file."""
    from gpu_node.inventories.errors import at
    from gpu_node.inventories.yaml.read import read

    # Before the value of an option, click leaves the arguments unread.
    file = Path(context.params.get("inventory") or next(iter(context.args), ""))
    with suppress(ValueError):  # there is none, or it is not YAML
        site = file.with_suffix(".yml") if file.suffix == ".py" else file
        found = at(read(site).value, (section,))
        return found if isinstance(found, dict) else ()
    return ()


def _of(known: Iterable[object], begun: str) -> list[str]:
    return [word for word in map(str, known) if word.startswith(begun)]

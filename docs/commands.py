"""Writes docs/reference/commands.md: every command of gpu-node, by what click knows of it.

`python docs/commands.py` writes it again; a test fails when it does not match the commands.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click

from gpu_node.cli.commands import NAMES, commands

PAGE = Path(__file__).parent / "reference" / "commands.md"
_HEAD = """\
# Commands

`gpu-node COMMAND --help` prints the same. INVENTORY is the cluster file, such as
`cluster/site.yml`, or the Python file beside it, `cluster/site.py`; [pyinfra and a cluster
file](pyinfra.md) has the difference. stdout has the result, stderr the progress and the errors.

`docs/commands.py` writes this page; do not edit it."""
# What click puts before a paragraph that is not wrapped.
_AS_WRITTEN = "\b\n"


_CODES = """\
## Exit codes

An error of a command line, or of the inventory, ends each of them with 1. 2 is an answer: it was
found out, and is not as it should be. What was not read is not judged, and ends with 1: a node that
does not answer, a fact that cannot be read, a sudo that refuses (`ssh.sudo-refused`: what is read
then is another user's than the inventory names); a dry run shows this, and ends with 0 if all
nodes answered. Where both are true, 1 has precedence.

| command | exit codes |
|---|---|"""
_STATUS = re.compile(r"Exit status: +(.*(?:\n {10,}.*)*)")


def page() -> str:
    """Return the page as Markdown."""
    group = click.Context(commands, info_name="gpu-node")
    sections: list[str] = []
    codes = [_CODES]
    for name in NAMES:
        command = commands.get_command(group, name)
        assert command is not None
        found = _STATUS.search(command.help or "")
        parts = re.split(r"\s{2,}(?=\d|--)", found[1]) if found else ["0 done", "1 otherwise"]
        shown = "; ".join(" ".join(part.split()) for part in parts)
        codes.append(f"| [{name}](#gpu-node-{name}) | {shown} |")
        sections += _section(command, click.Context(command, group, name), "##")
    return "\n\n".join([_HEAD, "\n".join(codes), *sections]) + "\n"


def _section(command: click.Command, context: click.Context, heading: str) -> Iterator[str]:
    """Yield the parts of a command's section, and of its commands where it has some."""
    yield f"{heading} {context.command_path}"
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield f"```text\n{usage}\n```"
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph.startswith(_AS_WRITTEN):
            yield f"```text\n{paragraph.removeprefix(_AS_WRITTEN)}\n```"
        else:
            yield paragraph
    # Without --help, which each command has, and arguments, which the text above names.
    records = [param.get_help_record(context) for param in command.params]
    if options := [f"- `{names}`: {does}" for names, does in filter(None, records) if does]:
        yield "\n".join(options)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _section(inner, click.Context(inner, context, name), f"{heading}#")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

"""The commands of `gpu-node`: each is imported when it is asked for.

A command's module declares its words and its help with click alone. What does the work is imported
in its body, `with loading():` where that talks to nodes.
"""

from __future__ import annotations

from importlib import import_module

import click
from typing_extensions import override

NAMES = (
    *("check", "check-job", "deploy", "diagnose", "drift", "explain", "fit", "history"),
    *("host-key", "hostfile", "init", "lab", "onboard", "probe", "remove", "restore", "rules"),
    "verify",
)


class _Commands(click.Group):
    """The module of a command, and the command in it, have the command's name."""

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*NAMES]

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in NAMES:
            return None
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(import_module(f"gpu_node.cli.{name}"), name)
        return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="gpu-node", prog_name="gpu-node")
def commands() -> None:
    """Make one cluster of unlike GPU servers, and prove it."""

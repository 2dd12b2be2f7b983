"""The commands of `gpu-node`.

A command's module declares its words and its help with click alone. What does the work is imported
in its body, `with loading():` where that talks to nodes.
"""

from __future__ import annotations

import click

from cli.drift import drift
from cli.host_key import host_key
from cli.hostfile import hostfile
from cli.lab import lab
from cli.onboard import onboard
from cli.remove import remove
from cli.verify import verify


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="gpu-node", prog_name="gpu-node")
def commands() -> None:
    """Make one cluster of unlike GPU servers, and prove it."""


commands.add_command(drift)
commands.add_command(host_key)
commands.add_command(hostfile)
commands.add_command(lab)
commands.add_command(onboard)
commands.add_command(remove)
commands.add_command(verify)

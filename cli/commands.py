"""The commands of `gpu-node`.

A command's module declares its words and its help with click alone. What does the work is imported
in its body, `with loading():` where that talks to nodes.
"""

from __future__ import annotations

import click

from gpu_node.cli.check import check
from gpu_node.cli.deploy import deploy
from gpu_node.cli.drift import drift
from gpu_node.cli.explain import explain
from gpu_node.cli.host_key import host_key
from gpu_node.cli.hostfile import hostfile
from gpu_node.cli.init import init
from gpu_node.cli.lab import lab
from gpu_node.cli.onboard import onboard
from gpu_node.cli.probe import probe
from gpu_node.cli.remove import remove
from gpu_node.cli.rules import rules
from gpu_node.cli.verify import verify


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="gpu-node", prog_name="gpu-node")
def commands() -> None:
    """Make one cluster of unlike GPU servers, and prove it."""


commands.add_command(check)
commands.add_command(deploy)
commands.add_command(drift)
commands.add_command(explain)
commands.add_command(host_key)
commands.add_command(hostfile)
commands.add_command(init)
commands.add_command(lab)
commands.add_command(onboard)
commands.add_command(probe)
commands.add_command(remove)
commands.add_command(rules)
commands.add_command(verify)

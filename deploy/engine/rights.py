"""As which user a deploy executes a command: as its current operation, or as root by sudo."""

from __future__ import annotations

from typing import cast

from pyinfra.api import Host, State
from pyinfra.api.arguments import CONNECTOR_ARGUMENT_KEYS

from gpu_node.facts.ask.execute import Rights


def of_operation(state: State, host: Host) -> Rights:
    """Return the rights of a host's current operation, for what its functions execute."""
    data = state.get_op_data_for_host(host, cast(str, host.executing_op_hash))
    arguments = dict(data.global_arguments)
    return {key: arguments[key] for key in CONNECTOR_ARGUMENT_KEYS if key in arguments}


def of_inventory(host: Host) -> Rights:
    """Return the rights of root if the inventory allows sudo; else those of the SSH user."""
    data = host.data.dict()
    return {"_sudo": True} if data.get("_sudo") else {}

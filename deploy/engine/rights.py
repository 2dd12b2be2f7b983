"""The sudo and like arguments of a running operation, for what a function of it runs by itself."""

from __future__ import annotations

from typing import Any, cast

from pyinfra.api import Host, State
from pyinfra.api.arguments import CONNECTOR_ARGUMENT_KEYS


def of_operation(
    state: State, host: Host, seconds: int, stdin: list[str] | None = None
) -> dict[str, Any]:
    """Return what `run_shell_command` takes, with a time limit and stdin of the command's own."""
    data = state.get_op_data_for_host(host, cast(str, host.executing_op_hash))
    arguments = dict(data.global_arguments)
    chosen = {key: arguments[key] for key in CONNECTOR_ARGUMENT_KEYS if key in arguments}
    return {**chosen, "_timeout": seconds, "_stdin": stdin}

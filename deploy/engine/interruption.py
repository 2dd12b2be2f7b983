"""How a run ends, and what it reports, on a failed operation, a lost connection and Ctrl-C."""

import signal
import sys

from pyinfra import logger
from pyinfra.api import Host, State
from pyinfra.api.state import BaseStateCallback
from typing_extensions import override

from gpu_node.deploy.engine import failures
from gpu_node.deploy.engine.run import node_of
from gpu_node.facts.ask.session import is_open
from gpu_node.inventories import interrupt, pyinfra_patches
from gpu_node.inventories.connection.connector import adopt

_INTERRUPTED = f"{interrupt.LINE}, not proved; the next run finishes"


class _Errors(BaseStateCallback):
    """Notes the area that failed; reports a broken connection, which pyinfra does not name."""

    @staticmethod
    @override
    def operation_host_start(state: State, host: Host, op_hash: str) -> None:
        failures.begin(host)

    @staticmethod
    @override
    def operation_host_error(
        state: State, host: Host, op_hash: str, retry_count: int = 0, max_retries: int = 0
    ) -> None:
        failures.note(state, host, op_hash)
        if not is_open(host.connector) and not node_of(host).out:
            logger.error(
                f"{host.print_prefix}the connection to the node broke during this operation; "
                "run again when the node is back: that run finishes the work"
            )

    @staticmethod
    @override
    def operation_end(state: State, op_hash: str) -> None:
        failures.leave(state)


def _answer() -> str:
    """Return the answer to pyinfra's question; without one end in one line: pyinfra would fail."""
    try:
        return input()
    except EOFError:
        interrupt.stop(
            "\ngpu-node: found no answer to pyinfra's question, and no node was changed; allowed: "
            "Enter on a terminal; next: run it with -y, or gpu-node deploy INVENTORY"
        )
        raise  # not reached


def watch(state: State) -> None:
    """Watch errors, and end with 1 on Ctrl-C; a second call changes nothing."""
    # For an inventory that is not ours; an existing escape stays.
    pyinfra_patches.install()
    adopt(state)
    if not any(isinstance(handler, _Errors) for handler in state.callback_handlers):
        state.add_callback_handler(_Errors())
    # pyinfra's own handler ends with 0, which means proved; that of pyinfra_child stays.
    if not interrupt.is_silent():
        signal.signal(signal.SIGINT, interrupt.Stop(lambda: _INTERRUPTED))
    pyinfra_patches.answer_by(_answer)
    if not sys.stdin.isatty():  # no answer to pyinfra's question whether to continue
        state.should_raise_failed_hosts = lambda _: False

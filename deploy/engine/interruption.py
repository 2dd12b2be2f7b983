"""Interruptions: how a run ends, and what it reports, if an operation, a node or a person stops."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

from pyinfra import logger
from pyinfra.api import Host, State
from pyinfra.api.state import BaseStateCallback
from typing_extensions import override

from deploy import failures
from facts.session import is_open


class _Errors(BaseStateCallback):
    """Notes the area that failed; reports a broken connection, which pyinfra does not name."""

    @staticmethod
    @override
    def operation_host_error(
        state: State, host: Host, op_hash: str, retry_count: int = 0, max_retries: int = 0
    ) -> None:
        failures.note(state, host, op_hash)
        if not is_open(host.connector):
            logger.error(
                f"{host.print_prefix}the connection to the node broke in the middle of this; "
                "run again when the node is back: what was begun will be finished"
            )


def watch(state: State) -> None:
    """Watch errors, and end with 1 on Ctrl-C; a second call changes nothing."""
    if not any(isinstance(handler, _Errors) for handler in state.callback_handlers):
        state.add_callback_handler(_Errors())
    if signal.getsignal(signal.SIGINT) is not end_unheard:
        signal.signal(signal.SIGINT, _stop)
    if not sys.stdin.isatty():  # pyinfra's question whether to go on with others has no answer
        state.should_raise_failed_hosts = lambda _: False


def end_unheard(number: int, frame: FrameType | None) -> None:
    """End as not converged, for a command of ours that tells of it in one line of its own."""
    os._exit(1)  # as in _stop


def _stop(number: int, frame: FrameType | None) -> None:
    """End as not converged: pyinfra's own handler ends with 0, which stands for proved."""
    print("\ngpu-node: interrupted, not proved; the next run finishes", file=sys.stderr, flush=True)
    os._exit(1)  # greenlets would wait for the nodes that are at work

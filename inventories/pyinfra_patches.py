"""All that is changed of pyinfra from outside: what it has no extension point for.

`install` is for the whole process, and called once an inventory of ours or our deploy is loaded;
the others change one run. No SSH of pyinfra's and nothing of paramiko is among it: see
`connection/connector.py`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from gevent import get_hub
from pyinfra.api import Host, State, output
from pyinfra.api.state import StateOperationHostData
from pyinfra.connectors import util
from pyinfra_cli.exceptions import UnexpectedExternalError, UnexpectedInternalError

from gpu_node.inventories.terminal import Errors, Visible, echo, in_lines, style


def install() -> None:
    """Have what pyinfra prints of a node pass the escape; a second call changes nothing."""
    _escape_logs()
    _escape_output()
    _read_any_bytes()
    for kind in (UnexpectedExternalError, UnexpectedInternalError):
        _escape_error(kind)
    # gevent prints the error that ends a greenlet as it is: the error may quote a node.
    get_hub().exception_stream = Errors()


def _escape_logs() -> None:
    """Show control characters in records of pyinfra's log, which quotes nodes.

    Upstream: pyinfra issue 167, closed: output of a host is printed as it is, on purpose.
    """
    logger = logging.getLogger("pyinfra")
    # The root's handlers are those of --debug-all: what paramiko logs.
    for place in (logger, *logging.getLogger().handlers):
        if not any(isinstance(each, Visible) for each in place.filters):
            place.addFilter(Visible())
    # A node that hangs up is an error in one line. paramiko logs its traceback as well, to stderr
    # where no handler is set. Upstream: paramiko issue 2016, closed: a program sets its handlers.
    paramiko = logging.getLogger("paramiko")
    if not paramiko.handlers:
        paramiko.addHandler(logging.NullHandler())


def _escape_output() -> None:
    """Show control characters in what pyinfra prints beside its log, such as a command's output.

    Upstream: issue 167, as above. pyinfra's command has set these two hooks, if it runs.
    """
    if output.is_output_active() and output._echo is not echo:
        output.set_formatter(style)
        output.set_echo(echo)


def _read_any_bytes() -> None:
    """Show bytes that are not UTF-8 in what a command prints on @local.

    pyinfra's reader ends there with a traceback, and the rest is lost. Upstream: no issue.
    """
    read = util.read_buffer
    if hasattr(read, "__wrapped__"):
        return

    @wraps(read)
    def read_buffer(name: str, io: Iterable[str | bytes], *rest: Any, **more: Any) -> None:
        lines = (
            each.decode("utf-8", "backslashreplace") if isinstance(each, bytes) else each
            for each in io
        )
        read(name, lines, *rest, **more)

    util.read_buffer = read_buffer


def _escape_error(kind: Any) -> None:
    """Show control characters in an error that ends pyinfra's command, in place of a traceback.

    Its text may quote a node. Upstream: no issue; pyinfra prints these two by click, past its log
    and its hooks for output.
    """
    if "get_exception" not in vars(kind):
        shown = kind.get_exception
        kind.get_exception = lambda self: in_lines(shown(self))


def answer_by(answer: Callable[[], str]) -> None:
    """Have pyinfra's question whether to go on answered by a function.

    Without a terminal its `input` ends in an EOFError, which is shown as an internal error.
    Upstream: no issue; pyinfra's answer is -y.
    """
    # It imports all operations of pyinfra, which a report does not need.
    from pyinfra_cli import cli

    vars(cli)["input"] = answer


def reword() -> None:
    """Leave out of pyinfra's messages what only an author of deploys needs, in a run of ours.

    A failed operation counts commands, an error names a line of our code, and a run that has no
    host left ends as an error, though its work is done. Upstream: no issue.
    """
    logging.getLogger("pyinfra").addFilter(_reworded)


_STYLES = r"(?:\x1b\[[\d;]*m)*"
# By the function of pyinfra that logs, no text of a node is changed. An empty text is left out.
_REWORDED = (
    (
        "log_error_or_warning",
        *(rf"Error(?: \(ignored[^)]*\))?: ({_STYLES})executed \d+ commands", r"failed\1"),
    ),
    ("show", rf"^(--> {_STYLES}[\w ]+ error) in .+? line \d+", r"\1"),
    ("show", rf"^--> {_STYLES}pyinfra error{_STYLES}: No hosts remaining!$", ""),
)


def _reworded(record: logging.LogRecord) -> bool:
    for function, pattern, words in _REWORDED:
        if isinstance(record.msg, str) and record.funcName == function:
            record.msg = re.sub(pattern, words, record.msg, count=1)
    return record.msg != ""


def change_operations(
    state: State, change: Callable[[Host, str, StateOperationHostData], None]
) -> None:
    """Have a function change each operation of a run when it is added for a host.

    pyinfra ends the run of all hosts if the commands of an operation cannot be made on one, and a
    failed operation ends all others of its host. Upstream: no issue; a callback for it does not
    exist, those of pyinfra come after an operation.
    """
    keep = state.set_op_data_for_host

    @wraps(keep)
    def set_op_data_for_host(host: Host, op_hash: str, op_data: StateOperationHostData) -> None:
        change(host, op_hash, op_data)
        keep(host, op_hash, op_data)

    state.set_op_data_for_host = set_op_data_for_host  # type: ignore[method-assign]

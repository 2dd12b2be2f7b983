"""Executes a command on a node, for all rooms: as which user, and with which time limit.

A command runs as the SSH user, or with the `rights` of another one; what runs as the training user
is wrapped by `facts.probe.training_user`. The output limit is that of the connection
(`inventories.connection.capped`), which all commands share. A server that is not yet in the
inventory has no pyinfra host: `onboarding.trust.session` reads its answers with the same limits.
"""

from collections.abc import Mapping
from typing import Any

from pyinfra.api import StringCommand
from pyinfra.connectors.base import BaseConnector
from pyinfra.connectors.util import CommandOutput

# pyinfra's connector arguments that decide as which user a command runs, such as `_sudo`.
Rights = Mapping[str, Any]
SSH_USER: Rights = {}


class NoAnswer(Exception):
    """How the command ended is unknown; str() is the reason."""


class NoAnswerInTime(NoAnswer, TimeoutError):
    """The command did not end within its time limit."""


def execute(
    connector: BaseConnector,
    command: StringCommand | str,
    seconds: float,
    rights: Rights = SSH_USER,
    stdin: Any = (),
    show: bool = False,
) -> tuple[bool, CommandOutput]:
    """Return whether a command ended with 0, and what it printed; `show` prints it at once.

    `stdin` is a list of lines, or a `Talk` of the connection. Raises NoAnswer.
    """
    if isinstance(command, str):
        command = StringCommand(command)
    given = {**rights, "_timeout": seconds, **({"_stdin": stdin} if stdin else {})}
    try:
        return connector.run_shell_command(command, show, False, **given)
    except TimeoutError:
        raise NoAnswerInTime(f"no answer within {seconds:.0f} s") from None
    except OverflowError as error:  # more output than the connection reads; it gives the limit
        raise NoAnswer(str(error)) from error
    except Exception as error:  # the transport broke: paramiko and socket errors of many classes
        why = f"the connection broke: {str(error) or type(error).__name__}"
        raise NoAnswer(why) from error

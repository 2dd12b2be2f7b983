"""Where `gpu-node` starts: cooperative sockets, and a user's mistake is one line and exit 1."""

from __future__ import annotations

import logging
import signal
import sys

from cli.interrupt import end_early, stop


def main() -> None:
    """Run the command and exit as the contract says: a usage error is 1, not click's 2."""
    is_heeded = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_heeded:
        signal.signal(signal.SIGINT, end_early)

    # Before anything imports socket or ssl, as pyinfra's own command does.
    from gevent import hub, monkey

    monkey.patch_all()
    # Ctrl-C is no error of a greenlet, and what paramiko logs is told by the report.
    hub.Hub.NOT_ERROR += (KeyboardInterrupt,)
    logging.getLogger("paramiko").addHandler(logging.NullHandler())

    import click
    from pyinfra.api.exceptions import PyinfraError

    from cli.commands import commands
    from cli.streams import take_every_character

    take_every_character(sys.stdout)
    if is_heeded:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        sys.exit(commands.main(prog_name="gpu-node", standalone_mode=False) or 0)
    except click.ClickException as error:
        error.show(sys.stderr)
    except (click.Abort, KeyboardInterrupt):
        stop()
    except (PyinfraError, OSError) as error:
        print(f"gpu-node: {error}", file=sys.stderr)
    sys.exit(1)

"""Where `gpu-node` starts: a user's mistake is one line and exit 1."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from gpu_node.inventories.interrupt import during_imports, stop

if TYPE_CHECKING:
    import click


# Almost nothing of what imports and the answers of nodes make is ever garbage: at Python's own
# thresholds a fifth of a report's time goes into looking for it.
_GARBAGE_AFTER = 100_000, 50, 50

# A user exports them for the programs of a job; Python and the loader would take them for this one.
_OF_A_JOB = ("PYTHONPATH", "LD_PRELOAD")
# Has the PYTHONPATH of the process that this one has replaced.
_LEFT = "GPU_NODE_PYTHONPATH"


def main() -> None:
    """Run the command and exit as the contract says: a usage error is 1, not click's 2."""
    _leave_job_variables()
    gc.set_threshold(*_GARBAGE_AFTER)
    with during_imports():
        import click

        from gpu_node.cli.commands import commands
        from gpu_node.cli.streams import (
            discard_unwritten,
            ignore_no_width,
            open_closed,
            print_error,
            take_every_character,
        )
        from gpu_node.cli.usage import failure, printed
        from gpu_node.inventories.errors import as_printed
        from gpu_node.inventories.escape import visible_lines

    if problem := open_closed():
        print(as_printed(problem), file=sys.stderr)
        sys.exit(1)
    take_every_character(sys.stdout)
    ignore_no_width()
    code: str | int | None = 1
    try:
        code = _run(commands)
    except BrokenPipeError:  # the reader has ended
        pass
    except click.ClickException as error:
        print_error(visible_lines(printed(error)))
    except (click.Abort, KeyboardInterrupt):
        stop()
    except Exception as error:
        if not _is_expected(error):
            raise
        print_error(visible_lines(printed(failure(error))))
    finally:
        discard_unwritten()
    gc.freeze()  # at its end Python would look through all that is left: a tenth of a second
    sys.exit(code)


def _leave_job_variables() -> None:
    """Start the installed command anew where a variable of a job has changed how it started.

    Once: what sets the variable may do so at each start. A package that is nowhere else, as those
    of an environment module, is still found by PYTHONPATH, behind all others.
    """
    if (left := os.environ.pop(_LEFT, None)) is not None:
        sys.path += [os.path.abspath(each) for each in left.split(os.pathsep) if each]
        return
    script = sys.argv[0]
    if os.path.basename(script) != "gpu-node" or script not in sys.orig_argv:
        return
    kept = {name: value for name, value in os.environ.items() if name not in _OF_A_JOB}
    given = os.environ.get("PYTHONPATH", "")
    own = os.path.abspath(f"{__file__}/../../..")
    if own in [os.path.abspath(each) for each in given.split(os.pathsep) if each]:
        kept["PYTHONPATH"] = own  # this program is installed by it
    if kept != dict(os.environ):
        with suppress(OSError):
            words, kept[_LEFT] = [sys.executable, *sys.orig_argv[1:]], given
            os.execve(sys.executable, words, kept)  # noqa: S606 (this very command, again)


def _run(commands: click.Group) -> str | int | None:
    """Run the command and return its exit code; all that it printed to stdout is written.

    Raises OSError where stdout takes no more: at Python's end, it could not be reported in a line.
    """
    code: str | int | None
    try:
        code = commands.main(prog_name="gpu-node", standalone_mode=False) or 0
    except SystemExit as end:  # of pyinfra's, or of click's where the reader has ended
        code = end.code
    sys.stdout.flush()
    return code


def _is_expected(error: Exception) -> bool:
    """Whether an error has its reason outside of this program: in a file, an inventory, a node."""
    if isinstance(error, OSError):
        return True
    # Where no command has imported pyinfra, no error is pyinfra's.
    pyinfra = sys.modules.get("pyinfra.api.exceptions")
    return pyinfra is not None and isinstance(error, pyinfra.PyinfraError)


if __name__ == "__main__":
    main()

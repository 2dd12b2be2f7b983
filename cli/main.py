"""Where `gpu-node` starts: a user's mistake is one line and exit 1."""

from __future__ import annotations

import errno
import io
import os
import sys

from gpu_node.inventories.interrupt import during_imports, stop


def main() -> None:
    """Run the command and exit as the contract says: a usage error is 1, not click's 2."""
    with during_imports():
        import click

        from gpu_node.cli.commands import commands
        from gpu_node.cli.streams import open_closed, take_every_character
        from gpu_node.inventories.escape import visible_lines

    if problem := open_closed():
        print(f"gpu-node: {problem}", file=sys.stderr)
        sys.exit(1)
    take_every_character(sys.stdout)
    try:
        sys.exit(commands.main(prog_name="gpu-node", standalone_mode=False) or 0)
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(shown)
        print(visible_lines(shown.getvalue()), end="", file=sys.stderr)
    except (click.Abort, KeyboardInterrupt):
        stop()
    except Exception as error:
        if not _is_expected(error):
            raise
        reason = _without_file(error) or str(error)
        print(f"gpu-node: {visible_lines(reason)}", file=sys.stderr)
    sys.exit(1)


def _without_file(error: Exception) -> str:
    """Return what is wrong where a system's error names no file; empty for others."""
    if not isinstance(error, OSError) or error.filename is not None:
        return ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
        return f"cannot write to stdout, or to a temporary file: {error.strerror}"
    if isinstance(error, FileNotFoundError) and not _has_folder():
        return "found a working directory that was deleted; next: cd to one that exists"
    return ""


def _has_folder() -> bool:
    try:
        return bool(os.getcwd())
    except FileNotFoundError:
        return False


def _is_expected(error: Exception) -> bool:
    """Whether an error has its reason outside of this program: in a file, an inventory, a node."""
    if isinstance(error, OSError):
        return True
    # Where no command has imported pyinfra, no error is pyinfra's.
    pyinfra = sys.modules.get("pyinfra.api.exceptions")
    return pyinfra is not None and isinstance(error, pyinfra.PyinfraError)


if __name__ == "__main__":
    main()

"""Where `gpu-node` starts: a user's mistake is one line and exit 1."""

from __future__ import annotations

import sys

from gpu_node.inventories.interrupt import during_imports, stop


def main() -> None:
    """Run the command and exit as the contract says: a usage error is 1, not click's 2."""
    with during_imports():
        import click

        from gpu_node.cli.commands import commands
        from gpu_node.cli.streams import open_closed, take_every_character
        from gpu_node.cli.usage import failure, printed
        from gpu_node.inventories.errors import as_printed
        from gpu_node.inventories.escape import visible_lines

    if problem := open_closed():
        print(as_printed(problem), file=sys.stderr)
        sys.exit(1)
    take_every_character(sys.stdout)
    try:
        sys.exit(commands.main(prog_name="gpu-node", standalone_mode=False) or 0)
    except click.ClickException as error:
        print(visible_lines(printed(error)), file=sys.stderr)
    except (click.Abort, KeyboardInterrupt):
        stop()
    except Exception as error:
        if not _is_expected(error):
            raise
        print(visible_lines(printed(failure(error))), file=sys.stderr)
    sys.exit(1)


def _is_expected(error: Exception) -> bool:
    """Whether an error has its reason outside of this program: in a file, an inventory, a node."""
    if isinstance(error, OSError):
        return True
    # Where no command has imported pyinfra, no error is pyinfra's.
    pyinfra = sys.modules.get("pyinfra.api.exceptions")
    return pyinfra is not None and isinstance(error, pyinfra.PyinfraError)


if __name__ == "__main__":
    main()

"""The `gpu-node lab` commands: emulated GPU servers to try and test on."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager

import click

from gpu_node.cli.usage import failure
from gpu_node.lab.errors import LabError


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn a LabError into one line on stderr and exit code 1."""
    try:
        yield
    except LabError as error:
        raise failure(error) from None


@click.group()
def lab() -> None:
    """Emulated GPU servers in podman to try and test on."""


@lab.command()
def up() -> None:
    """Bring the lab up; install by apt what it lacks."""
    from gpu_node.lab import life, roster

    with plain_errors():
        life.up()
    print_status()
    # The README names it as it is in the repository; a wheel has it in its own folder.
    if (inventory := roster.inventory()) != "inventories/lab.py":
        click.echo(f"report: gpu-node drift {shlex.quote(inventory)}", err=True)


@lab.command()
def down() -> None:
    """Remove the lab's containers, network and disks, and nothing else."""
    from gpu_node.lab import life

    with plain_errors():
        life.down()


@lab.command()
@click.argument("node", nargs=-1)
def reset(node: tuple[str, ...]) -> None:
    """Put the nodes, or the named ones, back to as found."""
    from gpu_node.lab import lock, nodes, roster
    from gpu_node.lab.progress import step

    with plain_errors():
        chosen = [roster.node(name).name for name in node]
        # Waiting has its own line, which a step's spinner would hide.
        with lock.held(), step(f"resetting {' '.join(chosen) or 'every node'}"):
            nodes.reset(chosen)


@lab.command()
def status() -> None:
    """Print every machine of the lab with its address and state."""
    with plain_errors():
        print_status()


def print_status() -> None:
    """One line a machine on stdout."""
    from gpu_node.lab import nodes, prerequisites

    with plain_errors():
        rows = nodes.status() if prerequisites.which("podman") else nodes.all_absent()
        for name, address, state in [("node", "address", "state"), *rows]:
            click.echo(f"{name:<10} {address:<15} {state}")


@lab.command(name="break", short_help="Inject one fault; without a name, list them.")
@click.argument("fault", required=False)
def break_(fault: str | None) -> None:
    """Inject one fault of the catalogue into a converged node; without a name, list them."""
    from gpu_node.lab import disks, faults, lock, nodes
    from gpu_node.lab.progress import step

    with plain_errors():
        if fault is None:
            click.echo(faults.listing())
            return
        chosen = faults.find(fault)
        with lock.held():
            nodes.require_up()
            as_found = disks.is_as_found(chosen.node)
            with step(f"breaking {chosen.node}: {fault}"):
                faults.inject(chosen)
        click.echo(chosen.forecast())
        if as_found:
            click.echo(
                f"{chosen.node} is as found: its own faults are reported, too, and may hide this "
                "one. To see it alone, converge, then break it again."
            )

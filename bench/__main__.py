"""Benchmarks of the controller: gpu-node beside pyinfra, OpenSSH, Ansible and mitogen.

\b
python -m bench all               as `make bench`: everything, into docs/benchmarks.*
python -m bench all 2 10          a short one, into .bench/benchmarks.*
python -m bench compare 2 10 50   drift, the OpenSSH floor and pyinfra with one fact; prints
python -m bench guard             as in `make test`: limits of ratios with 2 and 10 nodes
python -m bench serve 50          only serve nodes that answer at once: to profile a report
"""

from __future__ import annotations

import sys

import click

from bench.contenders import ours
from bench.contenders.all import CONTENDERS, DRIFT, OPENSSH, PYINFRA
from bench.guard import guard
from bench.measure.rounds import cpu, interleaved, megabytes, ratio, wall
from bench.measure.run import Failed
from bench.nodes.package import NoSshd
from bench.nodes.probed import NoAnswer
from bench.nodes.serve import Busy, answering, prepared
from bench.nodes.sshd import NoServer
from bench.page.write import NAME, write
from bench.places import HERE, REPOSITORY
from bench.whole import SIZES, measure

_SAME_WORK = (DRIFT, OPENSSH, PYINFRA)
_REASONS = (Failed, NoSshd, NoAnswer, Busy, NoServer, ours.NotReal)


@click.group(help=__doc__)
def main() -> None:
    """Choose what to do."""


@main.command("all")
@click.argument("sizes", type=int, nargs=-1)
@click.option("--rounds", default=5, show_default=True, help="At most so many of each.")
def everything(sizes: tuple[int, ...], rounds: int) -> None:
    """Measure all contenders, and write the page; other SIZES are not written into docs/."""
    results = measure(sorted({*sizes} or SIZES), rounds, click.echo)
    folder = HERE if sizes and {*sizes} != {*SIZES} else REPOSITORY / "docs"
    write(results, folder)
    click.echo(f"written: {(folder / NAME).relative_to(REPOSITORY)}.md, .json, .svg")


@main.command("guard")
def guarded() -> None:
    """Compare drift with pyinfra, with few nodes; exit 1 if it takes too much of it."""
    lines = guard(click.echo)
    if lines:
        sys.exit("\n".join(lines))


@main.command()
@click.argument("number", type=int)
def serve(number: int) -> None:
    """Serve nodes that answer at once, until Enter or the end of stdin."""
    with answering(number) as login:
        setup = prepared(number, login)
        click.echo(f"findings: {ours.check(setup)}")
        click.echo(f"gpu-node drift {setup.inventory}")
        for name in (OPENSSH, PYINFRA):
            command = CONTENDERS[name].start(setup)
            click.echo(f"{name}: cd {command.folder}; {' '.join(command.words)}")
        sys.stdin.readline()


@main.command()
@click.argument("numbers", type=int, nargs=-1, required=True)
@click.option("--rounds", default=3, show_default=True)
@click.option("--only", default=",".join(_SAME_WORK), show_default=True, help="Contenders.")
def compare(numbers: tuple[int, ...], rounds: int, only: str) -> None:
    """Measure contenders round by round; print medians, and the ratios to the others."""
    with answering(max(numbers)) as login:
        for number in numbers:
            setup = prepared(number, login)
            ours.check(setup)
            commands = {name: CONTENDERS[name].start(setup) for name in only.split(",")}
            series = interleaved(commands, dict.fromkeys(commands, rounds), setup.folder / "run")
            for name, runs in series.items():
                others = {other: ratio(runs, series[other]) for other in series if other != name}
                ratios = " ".join(f"{each:6.2f} x {other}" for other, each in others.items())
                click.echo(
                    f"{number:4} {name:8} {wall(runs):7.2f} s {cpu(runs):7.2f} s CPU "
                    f"{megabytes(runs):5.0f} MB {ratios}"
                )


if __name__ == "__main__":
    try:
        main()
    except _REASONS as error:
        sys.exit(f"bench: {error}")

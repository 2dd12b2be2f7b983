"""Benchmarks of the controller: gpu-node beside pyinfra, OpenSSH, Ansible and mitogen.

python -m bench compare 2 10 50    drift, the OpenSSH floor and pyinfra with one fact
python -m bench serve 50           only serve nodes that answer at once: to profile a report
"""

from __future__ import annotations

import sys

import click

from bench.contenders import bare, ours
from bench.measure.rounds import cpu, interleaved, megabytes, ratio, wall
from bench.nodes.serve import answering, prepared

NAMED = {"drift": ours.drift, "openssh": bare.openssh, "pyinfra": bare.pyinfra}


@click.group(help=__doc__)
def main() -> None:
    """Choose what to do."""


@main.command()
@click.argument("number", type=int)
def serve(number: int) -> None:
    """Serve nodes that answer at once, until Enter or the end of stdin."""
    with answering(number) as login:
        setup = prepared(number, login)
        click.echo(f"findings: {ours.check(setup)}")
        click.echo(f"gpu-node drift {setup.inventory}")
        for name in ("openssh", "pyinfra"):
            command = NAMED[name](setup)
            click.echo(f"{name}: cd {command.folder}; {' '.join(command.words)}")
        sys.stdin.readline()


@main.command()
@click.argument("numbers", type=int, nargs=-1, required=True)
@click.option("--rounds", default=3, show_default=True)
@click.option("--only", default=",".join(NAMED), show_default=True, help="Contenders.")
def compare(numbers: tuple[int, ...], rounds: int, only: str) -> None:
    """Measure contenders round by round; print medians."""
    with answering(max(numbers)) as login:
        for number in numbers:
            setup = prepared(number, login)
            ours.check(setup)
            commands = {name: NAMED[name](setup) for name in only.split(",")}
            series = interleaved(commands, rounds, setup.folder / "run")
            for name, runs in series.items():
                ratios = " ".join(
                    f"{ratio(runs, series[other]):6.2f} x {other}"
                    for other in series
                    if other != name
                )
                click.echo(
                    f"{number:4} {name:8} {wall(runs):7.2f} s {cpu(runs):7.2f} s CPU "
                    f"{megabytes(runs):5.0f} MB {ratios}"
                )


if __name__ == "__main__":
    main()

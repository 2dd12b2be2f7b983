"""Writes docs/benchmarks.md: the figures of a benchmark, and what they are figures of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from bench.contenders.all import ANSIBLE, CONTENDERS, DRIFT, MITOGEN, OPENSSH, PYINFRA
from bench.page.results import Answers, Results, Size

_TEMPLATE = Path(__file__).with_name("page.md.j2")
_NONE = "-"


def page(results: Results) -> str:
    """Return the page as Markdown."""
    template = Environment(  # noqa: S701 - Markdown of our own figures
        trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined, keep_trailing_newline=True
    ).from_string(_TEMPLATE.read_text())
    return template.render(
        results=results,
        versions=", ".join(f"{name} {version}" for name, version in results.versions.items()),
        wall=_table(list(_walls(results.sizes))),
        controller=_table(list(_costs(results.sizes))),
        ratios=_table(list(_ratios(results.sizes))),
        further=_table(list(_further(results))),
        answers=_table(list(_answers(results.answers))) if results.answers else "",
    )


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *others = rows
    lines = [head, ["---", *("---:" for _ in head[1:])], *others]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _walls(sizes: Sequence[Size]) -> Iterator[list[str]]:
    yield ["nodes", *(contender.title for contender in CONTENDERS.values())]
    for size in sizes:
        found = [size.figures.get(name) for name in CONTENDERS]
        yield [str(size.nodes), *(f"{each.wall:.2f}" if each else _NONE for each in found)]


def _costs(sizes: Sequence[Size]) -> Iterator[list[str]]:
    yield ["nodes", *(contender.title for contender in CONTENDERS.values())]
    for size in sizes:
        found = [size.figures.get(name) for name in CONTENDERS]
        cells = [f"{each.cpu:.2f} s, {each.megabytes:.0f} MB" if each else _NONE for each in found]
        yield [str(size.nodes), *cells]


def _ratios(sizes: Sequence[Size]) -> Iterator[list[str]]:
    yield ["nodes", "drift / pyinfra", "drift / OpenSSH", "mitogen / drift", "Ansible / drift"]
    for size in sizes:
        own = [f"{size.ratios[name]:.2f}" for name in (PYINFRA, OPENSSH)]
        found = [size.ratios.get(name) for name in (MITOGEN, ANSIBLE)]
        yield [str(size.nodes), *own, *(f"{1 / each:.1f}" if each else _NONE for each in found)]


def _further(results: Results) -> Iterator[list[str]]:
    yield ["nodes", "gpu-node drift", "pyinfra, one fact", "difference", "OpenSSH"]
    for nodes, costs in results.cpu_per_host().items():
        values = [costs[name] for name in (DRIFT, PYINFRA, "above_pyinfra", OPENSSH)]
        yield [str(nodes), *(f"{value:.1f} ms" for value in values)]


def _answers(found: Answers) -> Iterator[list[str]]:
    yield ["inventory", "seconds", "CPU seconds", "memory"]
    for title, each in (("without the mesh", found.plain), ("with the mesh", found.mesh)):
        yield [title, f"{each.wall:.2f}", f"{each.cpu:.2f}", f"{each.megabytes:.0f} MB"]

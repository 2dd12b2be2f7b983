"""The answer of `gpu-node fit` for people: nodes, what fits, what is ruled out, what to change."""

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gpu_node.drift.fit.choices import Wheel
from gpu_node.drift.fit.node import Node
from gpu_node.drift.fit.solve import Change, Fit, RuledOut
from gpu_node.drift.ranges import ranges
from gpu_node.inventories.escape import visible
from gpu_node.inventories.plurals import counted

_GAP = 2
# So many values of one reason are listed; of more, the first and the last.
_MOST_VALUES = 6
_STYLES = {"fits": "green", "change": "magenta", "unknown": "bold red"}
_NAMES = {"driver": "driver", "module": "module", "cuda": "CUDA", "torch": "torch", "nccl": "NCCL"}


def render(found: Fit, today: str) -> RenderableType:
    """Return the answer as a rich renderable; `today` is YEAR-MONTH, or longer."""
    parts: list[RenderableType] = [_nodes(found), *_unknown(found.nodes)]
    if any(not node.unknown for node in found.nodes):
        parts += [Text(), _fitting(found), *_ruled_out(found)]
    return Group(*parts, Text(), *_closing(found, today))


def _table(*heads: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
    for head in heads:
        table.add_column(head, overflow="fold")
    return table


def _nodes(found: Fit) -> Table:
    table = _table("node", "", "GPUs", "system", "glibc", "driver", "torch")
    for node in found.nodes:
        status = found.status(node)
        torches = ", ".join(dict.fromkeys(torch.version for _, torch in node.torches))
        system = f"{node.system}, Linux {node.kernel}" if node.kernel else node.system
        cells = (node.gpus, system, node.glibc, node.driver, torches)
        name = Text(visible(node.name))
        table.add_row(name, Text(status, style=_STYLES[status]), *map(_cell, cells))
    return table


def _cell(text: str) -> Text:
    return Text(visible(text) or "-")


def _unknown(nodes: Iterable[Node]) -> Iterator[Text]:
    """Yield why nodes are unknown, each on its line."""
    unknown = [node for node in nodes if node.unknown]
    if unknown:
        yield Text()
    for node in unknown:
        head = (f"{visible(node.name)} is unknown", "bold red")
        rest = f"its GPUs count, {node.gpus}" if node.models else "what fits is without it"
        yield Text.assemble(head, f": {visible(node.unknown)}; {visible(rest)}")


def _fitting(found: Fit) -> Table:
    table = _table("", "fits all nodes")
    rows = {
        "driver": _listed(map(str, (each.number for each in found.drivers))),
        "CUDA": _listed(found.cudas),
        "torch": "\n".join(_by_cuda(found.wheels)) or "none",
        "NCCL": _listed(found.nccls),
    }
    for name, values in rows.items():
        table.add_row(Text(name, style="bold"), Text(values))
    return table


def _listed(values: Iterable[str]) -> str:
    return ", ".join(values) or "none"


def _by_cuda(wheels: Sequence[Wheel]) -> Iterator[str]:
    for cuda in dict.fromkeys(wheel.cuda for wheel in wheels):
        yield f"CUDA {cuda}: " + ", ".join(each.torch for each in wheels if each.cuda == cuda)


def _ruled_out(found: Fit) -> Iterator[RenderableType]:
    """Yield what is ruled out, of drivers, CUDA and torches; NCCL follows from torch."""
    outs = [each for each in found.ruled_out if each.what != "nccl"]
    if not outs:
        return
    known = [node.name for node in found.nodes if not node.unknown or node.models]
    table = _table("", "ruled out", "because", "nodes")
    for each in outs:
        nodes = ranges(each.nodes, known) if each.nodes else "all"
        cells = (_values(each), each.why, nodes)
        table.add_row(Text(_NAMES[each.what], style="bold"), *map(_cell, cells))
    yield Text()
    yield table


def _values(out: RuledOut) -> str:
    values = out.values
    if len(values) <= _MOST_VALUES:
        return ", ".join(values)
    return f"{values[0]} ... {values[-1]} ({len(values)})"


def _closing(found: Fit, today: str) -> Iterator[RenderableType]:
    """Yield the set and the changes, or that there is none."""
    known = [node for node in found.nodes if not node.unknown]
    if found.chosen is None:
        nothing = "No set fits all nodes: see what is ruled out"
        if not known:
            nothing = "No set: no node can be judged, for the reasons above"
        if not found.nodes:
            nothing = "No set: no node of these has GPUs for jobs (gpu: none in the inventory)"
        yield Text(f"{nothing}.", style="bold red")
        return
    driver, wheel = found.chosen
    is_kept = driver.until >= today[: len("2026-06")]
    until = f"maintained until {driver.until}" if is_kept else "no longer maintained by NVIDIA"
    nccl = f", NCCL {wheel.nccl}" if wheel.nccl else ""
    index = "" if wheel.wheel == "default" else f" ({wheel.wheel} of PyTorch's wheel index)"
    head = f"driver {driver.number} ({until}), CUDA {wheel.cuda}, torch {wheel.torch}{index}{nccl}"
    yield Text.assemble(("Set: ", "bold"), head)
    if not found.changes:
        yield Text(f"{counted(len(known), 'node')}: nothing to change.")
        return
    nodes = {change.node for change in found.changes}
    changes = f"{counted(len(found.changes), 'change')} on {counted(len(nodes), 'node')}"
    yield Text(f"The shortest way, {changes}:")
    yield _way(found.changes)


def _way(changes: Iterable[Change]) -> Table:
    table = _table("node", "", "found", "wanted", "environment")
    for each in changes:
        table.add_row(*map(_cell, each))
    return table

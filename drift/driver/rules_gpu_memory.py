"""Driver rules about the memory of GPUs: the mode of ECC, its errors, and what is put aside."""

from collections import defaultdict
from collections.abc import Iterator

from gpu_node.drift.engine import subject as about
from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.ranges import ranges
from gpu_node.facts.driver.gpus import Gpu
from gpu_node.facts.driver.state import DriverState
from gpu_node.facts.node import NodeState
from gpu_node.inventories.wanted import DriverWanted

# More errors of its SRAM in its life, or retired pages (of 64): clouds replace such a GPU.
_MOST_SRAM, MOST_PAGES = 4, 60
_REPLACE = "run NVIDIA's field diagnostic, and have the GPU replaced"


def _gpus(state: DriverState) -> tuple[Gpu, ...]:
    return state.smi.gpus if state.smi else ()


@check("driver.ecc")
def ecc(at: At[DriverState, DriverWanted]) -> Iterator[Fault]:
    for gpu in _gpus(at.here):
        if gpu.uncorrected:
            yield Fault(
                subject=about.Gpu(gpu.uuid),
                found=f"{gpu.uncorrected} uncorrected since the driver was loaded",
                wanted="0",
                names={"UUID": gpu.uuid},
                # A GPU that remaps rows keeps new programs off the page (since Ampere).
                stops=gpu.remap_failed is None,
            )
        elif (gpu.sram_uncorrected or 0) > _MOST_SRAM:
            yield Fault(
                subject=about.Gpu(gpu.uuid),
                found=f"{gpu.sram_uncorrected} uncorrected of its SRAM in its life",
                wanted=f"{_MOST_SRAM} or fewer (proposed)",
                cause="its SRAM wears out, and has no spare rows: such errors come more often",
                fix=_REPLACE,
                severity="warning",
            )


@check("driver.row-remap")
def row_remap(at: At[DriverState, DriverWanted]) -> Iterator[Fault]:
    for gpu in _gpus(at.here):
        if gpu.remap_failed:
            yield Fault(
                subject=about.Gpu(gpu.uuid),
                found="a damaged row could not be replaced",
                wanted="no such row",
                cause="the GPU has no spare row left for it: uncorrected errors come again",
                fix=_REPLACE,
            )
        elif gpu.remap_pending:
            yield Fault(
                subject=about.Gpu(gpu.uuid),
                found="a damaged row waits for a reset",
                wanted="no such row",
                names={"UUID": gpu.uuid},
                severity="warning",
            )


@check("driver.page-retirement")
def page_retirement(at: At[DriverState, DriverWanted]) -> Iterator[Fault]:
    for gpu in _gpus(at.here):
        if (gpu.retired_pages or 0) > MOST_PAGES:
            yield Fault(
                subject=about.Gpu(gpu.uuid),
                found=f"{gpu.retired_pages} pages are retired",
                wanted=f"{MOST_PAGES} or fewer",
                fix=_REPLACE,
            )
        elif gpu.retirement_pending:
            yield Fault(
                subject=about.Gpu(gpu.uuid),
                found="a damaged page waits for a reset",
                wanted="no such page",
                cause="after an error of two bits no program can start on the GPU until then",
                names={"UUID": gpu.uuid},
                severity="warning",
            )


@check("driver.ecc-mode")
def ecc_mode(at: At) -> Iterator[Fault]:
    gpus = _gpus(at.node.driver)
    for gpu in gpus:
        if gpu.ecc is not None and gpu.ecc_pending not in (None, gpu.ecc):
            text = f"{_word(gpu.ecc)}, and {_word(not gpu.ecc)} after the next reset"
            yield _mode_fault(gpu.uuid, text, "the same after a reset", is_planned=True)
    by_node = at.nodes.once(_modes)
    for model, modes in _modes_of(at.node).items():
        if len(modes) > 1:
            of_model = [gpu for gpu in gpus if gpu.name == model]
            off = sum(gpu.ecc is False for gpu in of_model)
            yield _mode_fault(model, f"off on {off} of {len(of_model)}", "the same on all GPUs")
            continue
        (mode,) = modes
        others = [name for name in by_node.get((model, not mode), ()) if name != at.nodes.name]
        alike = [name for name in by_node.get((model, mode), ()) if name != at.nodes.name]
        if len(others) > len(alike):
            text = f"{_word(mode)}; {ranges(others)}: {_word(not mode)}"
            yield _mode_fault(model, text, "the same on all nodes with this GPU")


def _modes(nodes: Nodes) -> dict[tuple[str, bool], list[str]]:
    """Return the nodes by their GPUs' model and mode; one with both modes is left out."""
    having: dict[tuple[str, bool], list[str]] = defaultdict(list)
    for name, state in nodes.states.items():
        for model, modes in _modes_of(state).items():
            if len(modes) == 1:
                having[model, True in modes].append(name)
    return having


def _modes_of(state: NodeState) -> dict[str, set[bool]]:
    """Return the modes of a node's GPUs by their model; a mode that is unknown is none."""
    modes: dict[str, set[bool]] = {}
    for gpu in _gpus(state.driver):
        if gpu.ecc is not None:
            modes.setdefault(gpu.name, set()).add(gpu.ecc)
    return modes


def _word(mode: bool) -> str:
    return "on" if mode else "off"


def _mode_fault(subject: str, found: str, wanted: str, is_planned: bool = False) -> Fault:
    return Fault(
        subject=f"ECC of {subject}",
        found=found,
        wanted=wanted,
        severity="info" if is_planned else None,
    )

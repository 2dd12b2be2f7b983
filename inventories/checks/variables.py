"""Check names and values under `env`: what no library reads would be set on all nodes, in vain."""

import re
from collections.abc import Iterable, Iterator

from gpu_node.inventories.errors import KeyPath, Problem, at, shown
from gpu_node.inventories.fields.kinds import IFNAME
from gpu_node.inventories.nccl_variables import WORDS_OF, is_unknown, misread, real
from gpu_node.inventories.yaml.read import Document

# The rules that report such a name or value on nodes: where one is turned off, all is as meant.
_NAMES, _VALUES = "env.unknown-variable", "env.invalid-value"
# How many threads each process has; OpenMP takes a number for each level of nested threads.
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
_COUNTS = re.compile(r"\s*[1-9][0-9]*\s*(,\s*[1-9][0-9]*\s*)*")


def misspelt_variables(
    document: Document, levels: Iterable[KeyPath], wanted: object
) -> Iterator[Problem]:
    """Yield names of NCCL's and PyTorch's families that nothing reads and that are near a real one,
    and values that NCCL reads as others.

    A name that is near none may be a newer library's: the rule reports it.
    """
    # One that is off until a date counts as off here after it, too: no date makes a file invalid.
    on = (None, True)
    off = {each for each in (_NAMES, _VALUES, "env") if at(wanted, ("checks", each)) not in on}
    for level in levels if "env" not in off else ():
        entries = at(document.value, (*level, "env"))
        for name, value in entries.items() if isinstance(entries, dict) else ():
            path = (*level, "env", name)
            if _NAMES not in off and isinstance(name, str):
                yield from _misspelt(path, name)
            if _VALUES not in off and isinstance(name, str) and isinstance(value, str):
                yield from _misread(path, name, value)


def _misspelt(path: KeyPath, name: str) -> Iterator[Problem]:
    near = real(name)[0] if is_unknown(name) else ""
    if near:
        allowed = "network: {interface: ...}" if near == IFNAME else near
        why = f"no library reads it, did you mean {near}?"
        yield Problem(path, shown(name), why, allowed, _or_keep("correct it", _NAMES))


def _misread(path: KeyPath, name: str, value: str) -> Iterator[Problem]:
    if name in _THREADS and value and not _COUNTS.fullmatch(value):
        why = "it is ignored: each process then has a thread for each core"
        then = _or_keep(f'write, for example, {name}: "8"', _VALUES)
        yield Problem(path, shown(value), why, "a number in quotes", then)
    if why := misread(name, value):
        allowed = ", ".join(WORDS_OF.get(name, ())) or "a number in quotes"
        then = _or_keep("write one of the allowed values", _VALUES)
        yield Problem(path, shown(value), f"it {why.partition(';')[0]}", allowed, then)


def _or_keep(then: str, rule: str) -> str:
    return f"{then}; or keep it with checks: {{{rule}: false}}"

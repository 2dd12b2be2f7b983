"""Check the names under `env`: one that no library reads would be set on all nodes, in vain."""

from collections.abc import Iterable, Iterator

from gpu_node.inventories.errors import KeyPath, Problem, at, shown
from gpu_node.inventories.fields.kinds import IFNAME
from gpu_node.inventories.nccl_variables import is_unknown, real
from gpu_node.inventories.yaml.read import Document

# The rule that reports such a name on nodes: where it is turned off, a name is as meant.
_RULE = "env.unknown-variable"
_KEEP = f"correct it; or keep it with checks: {{{_RULE}: false}}"


def misspelt_variables(
    document: Document, levels: Iterable[KeyPath], wanted: object
) -> Iterator[Problem]:
    """Yield names of NCCL's and PyTorch's families that nothing reads and that are near a real one.

    A name that is near none may be a newer library's: the rule reports it.
    """
    if any(at(wanted, ("checks", each)) is False for each in (_RULE, "env")):
        return
    for level in levels:
        names = at(document.value, (*level, "env"))
        for name in names if isinstance(names, dict) else ():
            near = real(name)[0] if isinstance(name, str) and is_unknown(name) else ""
            if near:
                allowed = "network: {interface: ...}" if near == IFNAME else near
                why = f"no library reads it, did you mean {near}?"
                yield Problem((*level, "env", name), shown(name), why, allowed, _KEEP)

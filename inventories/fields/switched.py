"""The checks that a cluster file turns off, by the names of rules and areas."""

import re
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field, StrictBool

from gpu_node.facts.areas import AREAS, RULE_ID
from gpu_node.inventories.errors import did_you_mean

_ROOT = Path(__file__).parents[2]
_RULE = re.compile(rf'^@rule\(\s*"({RULE_ID})"', re.MULTILINE)


@cache
def rule_names() -> tuple[str, ...]:
    """Return the ids of all rules, as their source has them: the rules are in a room above."""
    modules = sorted(_ROOT.glob("drift/*/rules*.py"))
    return tuple(name for module in modules for name in _RULE.findall(module.read_text("utf-8")))


def _name(name: object) -> str:
    known = (*AREAS, *rule_names())
    if not isinstance(name, str) or name not in known:
        raise ValueError(f"no such rule or area{did_you_mean(str(name), known)}")
    return name


Checks = Annotated[
    dict[Annotated[str, BeforeValidator(_name)], StrictBool],
    Field(
        examples=[{"toolchain.gcc-differs": False}],
        description="rules and areas with true or false, such as {toolchain.gcc-differs: false}",
        title="rules, or whole areas, that are not judged and not repaired (false)",
    ),
]

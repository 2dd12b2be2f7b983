"""The checks that a cluster file turns off, by the names of rules and areas."""

import csv
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field, StrictBool

from gpu_node.facts.areas import AREAS
from gpu_node.inventories.errors import did_you_mean

# Every rule of the report; docs/rules.py writes it, because the rules are in a room above.
_RULES = Path(__file__).parents[1] / "rules.tsv"


@cache
def rule_names() -> tuple[str, ...]:
    """Return the ids of all rules."""
    with _RULES.open(encoding="utf-8", newline="") as source:
        return tuple(row["rule"] for row in csv.DictReader(source, delimiter="\t"))


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

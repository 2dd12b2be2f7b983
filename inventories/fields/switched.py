"""The checks that a cluster file turns off: rules and areas, until when, and why."""

import re
from datetime import date, datetime
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Discriminator, Field, StrictBool, Tag

from gpu_node.facts.areas import AREAS, RULE_ID
from gpu_node.inventories.errors import Wrong, nearest
from gpu_node.inventories.model import MARK, Model

_ROOT = Path(__file__).parents[2]
_RULE = re.compile(rf"^({RULE_ID}):$", re.MULTILINE)


@cache
def rule_names() -> tuple[str, ...]:
    """Return the ids of all rules, as their rows have them: the rules are in a room above."""
    files = sorted(_ROOT.glob("drift/*/rules.yml"))
    return tuple(name for file in files for name in _RULE.findall(file.read_text("utf-8")))


def _name(name: object) -> str:
    rules = rule_names()
    if not isinstance(name, str) or name not in (*AREAS, *rules):
        area, dot, _ = str(name).partition(".")
        # What the ids of an area share makes them near to each other.
        common = f"{area}." if dot and area in AREAS else ""
        known = [each.removeprefix(common) for each in rules if each.startswith(common)]
        near = nearest(str(name).removeprefix(common), [*known, *([] if common else AREAS)])
        raise ValueError(f"no such rule or area{f', did you mean {common}{near}?' if near else ''}")
    return name


_LONGEST_REASON = 200


def _day(value: object) -> date:
    """A day as YAML writes it; of a Python inventory also a date."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    try:
        day = date.fromisoformat(str(value))
    except ValueError:
        raise ValueError("") from None
    if str(day) != str(value):  # Python 3.11 reads 20261224 as well
        raise ValueError("")
    return day


def _reason(value: object) -> str:
    if isinstance(value, bool | int | float):
        raise ValueError("this does not read as text: put it in quotes")
    if isinstance(value, str) and not value.strip():
        raise Wrong("", "write why the check is off, such as reason: reboot window")
    if not isinstance(value, str) or not value.isprintable():
        raise ValueError("")
    if len(value) > _LONGEST_REASON:
        raise ValueError(f"{len(value)} characters")
    return value.strip()


Day = Annotated[
    date,
    BeforeValidator(_day),
    Field(examples=[date(2026, 12, 24)], description="a day, such as 2026-12-24"),
]
Reason = Annotated[
    str,
    BeforeValidator(_reason),
    Field(
        examples=["reboot window"],
        description=f"one line of text, at most {_LONGEST_REASON} characters",
    ),
]


class Off(Model):
    """Until when a check is off, and why."""

    EXAMPLE = "{until: 2026-12-24, reason: reboot window}"

    until: Day = Field(
        title="the last day on which the rule, or the area, is not judged and not repaired, by the "
        "clock and the time zone of this machine"
    )
    reason: Reason = Field(title="why: the report has it beside each finding")

    def is_over(self, day: date) -> bool:
        """Whether the check is on again."""
        return day > self.until


_SWITCH, _OFF = f"{MARK}switch", f"{MARK}off"


def _kind(value: object) -> str:
    return _OFF if isinstance(value, dict | Off) else _SWITCH


Entry = Annotated[
    Annotated[StrictBool, Tag(_SWITCH)] | Annotated[Off, Tag(_OFF)], Discriminator(_kind)
]
Checks = Annotated[
    dict[Annotated[str, BeforeValidator(_name)], Entry],
    Field(
        examples=[{"toolchain.gcc-differs": False}],
        description="rules and areas with true or false, such as {toolchain.gcc-differs: false}, "
        f"or with a date and a reason, such as {{driver.next-boot: {Off.EXAMPLE}}}",
        title="rules, or whole areas, that are not judged and not repaired (false), or not until "
        "the end of a day",
    ),
]

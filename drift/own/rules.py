"""The rules of a site's own checks: what their commands print is as the inventory wants it."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from gpu_node.drift.engine.compare import faults
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.facts.own import Answer, OwnState
from gpu_node.facts.probe.lines import lines_of
from gpu_node.inventories.fields.own import OwnCheck

_NUMBER = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,9})?", re.ASCII)
_LONGEST = 200


@check("own.wrong")
def wrong(at: At[OwnState]) -> Iterator[Fault]:
    for each in at.wanted.own_checks or ():
        answer = at.here.answers.get(each.name)
        # One that was cut off is a finding of its own.
        if answer is not None and (wanted := _unmet(each, answer)):
            found = answer.text if answer.code == 0 else _ended(answer)
            yield Fault(
                subject=each.name,
                found=_cut(found) or "nothing",
                wanted=wanted,
                **_words(each),
            )


@check("own.differs")
def differs(at: At[OwnState]) -> Iterator[Fault]:
    known = {each.name: each for each in at.wanted.own_checks or ()}
    for fault in faults("own.differs", at):
        each = known.get(str(fault.subject))
        yield replace(fault, **_words(each)) if each else fault


def _cut(text: str) -> str:
    more = len(text) - _LONGEST
    return f"{text[:_LONGEST]}... ({more} more characters)" if more > 0 else text


def _words(each: OwnCheck) -> dict[str, Any]:
    return {"cause": each.why or "", "fix": each.fix or "", "severity": each.severity}


def _ended(answer: Answer) -> str:
    last = lines_of(answer.text)[-1:]
    return f"exit {answer.code}: {last[0] if last else 'no output'}"


def _unmet(each: OwnCheck, answer: Answer) -> str:
    """Return what is wanted of an answer that is another; empty where it is as wanted."""
    if answer.code != 0:
        return "exit 0"
    if each.equals is not None and answer.text != each.equals.strip():
        return each.equals or "nothing"
    if each.one_of and answer.text not in each.one_of:
        return f"one of {', '.join(each.one_of)}"
    number = float(answer.text) if _NUMBER.fullmatch(answer.text) else None
    if each.at_least is not None and (number is None or number < each.at_least):
        return f"a number, at least {each.at_least:.15g}"
    if each.at_most is not None and (number is None or number > each.at_most):
        return f"a number, at most {each.at_most:.15g}"
    return ""

"""All rules, in the order of their rows.

Each row has one function, in a module `rules*`, or a relation; without either, the facts that name
the rule in their row are compared between nodes.
"""

from collections.abc import Iterator
from functools import partial
from graphlib import TopologicalSorter

from gpu_node.drift.engine import rule
from gpu_node.drift.engine.areas import modules
from gpu_node.drift.engine.compare import faults
from gpu_node.drift.engine.nodes import Judged
from gpu_node.drift.engine.rows import rows
from gpu_node.drift.engine.rule import At, Fault, Rule, check
from gpu_node.drift.engine.shown_facts import FACTS
from gpu_node.facts.areas import AREAS

__all__ = ["RULES", "Rule"]


def _in_order() -> dict[str, Rule]:
    """Return the rules in the order of their rows; a ValueError says what does not fit."""
    modules("rules")
    listed = {rule_id: row for area in AREAS for rule_id, row in rows(area).items()}
    for rule_id in {fact.row.rule for fact in FACTS} & {*listed} - rule.RULES.keys():
        check(rule_id)(partial(faults, rule_id))
    related = {each for each, row in listed.items() if "relation" in row}
    for rule_id in related - rule.RULES.keys():
        check(rule_id)(partial(_broken, rule_id))
    if missing := {*listed} - rule.RULES.keys():
        raise ValueError(f"no function checks these rows: {missing}")
    named = {each for own in rule.RULES.values() for each in own.causes}
    named |= {each for fact in FACTS for each in fact.row.rules}
    if unknown := named - rule.RULES.keys():
        raise ValueError(f"a row names what is no rule: {unknown}")
    for fact in FACTS:
        declared = rule.RULES[fact.row.rule].severity if fact.row.rule else ()
        if fact.row.severity not in (None, *declared):
            allowed = f"{', '.join(declared)}, as in the row of {fact.row.rule}"
            raise ValueError(
                f"{fact.name}: severity: found {fact.row.severity}; allowed: {allowed}"
            )
    TopologicalSorter({rule_id: rule.RULES[rule_id].causes for rule_id in listed}).prepare()
    return {rule_id: rule.RULES[rule_id] for rule_id in listed}


def _broken(rule_id: str, at: At) -> Iterator[Fault]:
    relation = rule.RULES[rule_id].relation
    yield from (Fault(*each) for each in relation.broken(at.node)) if relation else ()


RULES = _in_order()


def why_not_judged(rule_id: str, node: Judged) -> str:
    """Return why a rule is not judged on a node, also one of another version; empty: it is."""
    if rule_id in RULES:
        return RULES[rule_id].why_not_judged(node.wanted, node.nodes)
    if not is_unread(rule_id):
        return "this version has no such rule"
    return "" if node.is_on(rule_id) else rule.TURNED_OFF


def is_unread(rule_id: str) -> bool:
    """Whether a finding of a rule says that something could not be judged."""
    known = RULES.get(rule_id)
    return rule_id.endswith(".unreadable") or bool(known and known.explains_unread)

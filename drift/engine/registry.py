"""All rules: those of each area's modules `rules*`, causes before what they explain."""

from gpu_node.drift.engine import rule
from gpu_node.drift.engine.areas import modules
from gpu_node.drift.engine.rule import Rule

__all__ = ["RULES", "Rule"]


def _place(module: str, placed: dict[str, list[Rule]]) -> None:
    """Add a module's rules after those that its rules name as causes."""
    own = [each for each in rule.RULES.values() if each.check.__module__ == module]
    causes = [rule.RULES[cause.rule] for each in own for cause in each.because_of]
    for other in dict.fromkeys(cause.check.__module__ for cause in causes):
        if other not in (module, *placed):
            _place(other, placed)
    placed[module] = own


def _in_order() -> dict[str, Rule]:
    """Return the rules in an order that does not depend on which module was imported first."""
    placed: dict[str, list[Rule]] = {}
    for module in modules("rules"):
        if module.__name__ not in placed:
            _place(module.__name__, placed)
    return {each.id: each for rules in placed.values() for each in rules}


RULES = _in_order()

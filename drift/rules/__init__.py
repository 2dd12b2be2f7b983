"""The rules: one module an area or two; importing this package registers them all."""

from importlib import import_module
from pkgutil import iter_modules

from drift.rules.rule import RULES, Rule

__all__ = ["RULES", "Rule"]

for _module in iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)

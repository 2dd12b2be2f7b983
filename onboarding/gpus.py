"""The GPUs of a machine that is in no inventory yet: what model they are, by name or PCI id."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from typing_extensions import override

from drift.builds import is_model, kinds, short_model
from drift.driver import model_of

_PCI_ID = re.compile(r"(?:0x|10de:)?([0-9a-f]{4})", re.IGNORECASE)


class Refusal(Exception):
    """Why a machine cannot become a host as it was asked for, and what can be done."""


@dataclass(frozen=True)
class Gpus:
    """GPUs of one model: their names, each once, or the PCI ids that no table knows.

    `model` is the one of gpus.tsv, None where the table has none of that name.
    """

    names: tuple[str, ...]
    is_named: bool
    model: str | None
    count: int

    def are(self, model: str) -> bool:
        """Whether all of them are of a model as an inventory names it: in the name's words."""
        return all(is_model(name, model) for name in self.names)

    def unknown(self) -> str:
        """Say which table lacks them."""
        if self.is_named:
            return f"{self}: no model of drift/data/gpus.tsv; allowed: add it there"
        tables = "drift/data/pci_ids.tsv and its model to gpus.tsv"
        return f"{self}: no PCI id of drift/data/pci_ids.tsv; allowed: add it to {tables}"

    @override
    def __str__(self) -> str:
        return f"{self.count} x {' / '.join(self.names)}"


def gpus_of(told: Sequence[str]) -> Gpus:
    """Return what GPUs are, each told by its PCI id (0x1db6) or by the name nvidia-smi gives it.

    Refusal: there is none, or they are of two models, for which no inventory has words.
    """
    if not told:
        raise Refusal(
            "no NVIDIA GPU on its PCI bus; allowed: a machine with one (if it has one: lspci -d "
            "10de: on it; a card that is not listed is not seated, has no power, or is off in "
            "the firmware)"
        )
    named = [_named(each) for each in told]
    unknown = [_shown_id(each) for each, name in zip(told, named, strict=True) if name is None]
    names = [name for name in named if name is not None]
    counted = [*names, *unknown]
    if len(kinds(counted)) > 1:
        listed = ", ".join(f"{counted.count(each)} x {each}" for each in dict.fromkeys(counted))
        raise Refusal(
            f"GPUs of {len(kinds(counted))} models: {listed}; allowed: one model a node, so that "
            "it cannot be onboarded as it is: take the other cards, one for a display too, out, or "
            "turn their slots off in the firmware"
        )
    distinct = tuple(dict.fromkeys(names or unknown))
    model = short_model(names[0]) if names else None
    return Gpus(distinct, bool(names), model, len(told))


def _named(told: str) -> str | None:
    found = _PCI_ID.fullmatch(told)
    return model_of(f"0x{found[1]}") if found else told


def _shown_id(told: str) -> str:
    found = _PCI_ID.fullmatch(told)
    return f"10de:{found[1].lower()}" if found else told

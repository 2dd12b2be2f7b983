"""A finding: what is wrong on a node, why it hurts, what cures it, and who can apply the cure."""

from dataclasses import dataclass
from datetime import date
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, InstanceOf

from gpu_node.drift.engine.subject import Subject

Severity = Literal["error", "warning", "info"]
Who = Literal["deploy", "administrator", "user"]
# Whose findings one may explain: "here" those of its node, "peers" those about it on other nodes.
Explains = Literal["all", "here", "peers", "none"]


@dataclass(frozen=True)
class Way:
    """A way to repair a finding, and who takes it: a run of the deploy, root, or who trains."""

    who: Who
    text: str


# Between the ways of a fix.
OR = "; or: "


class Root(BaseModel):
    """The finding that explains others: its node, its rule and its subject."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    node: str
    rule: str
    subject: str


class Finding(BaseModel):
    """One thing wrong on one node; the fields are those of the JSON report."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rule: str
    severity: Severity
    subject: str
    found: str
    wanted: str
    cause: str
    fix: str
    # Whether the deploy repairs it.
    fixable: bool
    # The folder of deploy/ whose step repairs it, the first of two; its own area where none does.
    step: str
    # The finding of this report that explains this one; null: none does.
    root: Root | None = None
    # The nodes of the roots, where it is about several peers: `root` is the first. Not in the JSON.
    root_nodes: tuple[str, ...] = Field(default=(), exclude=True)
    # The subject as data; no part of the JSON report.
    about: InstanceOf[Subject] | None = Field(default=None, exclude=True)
    # The ways of `fix`; without them the user takes it. No part of the JSON report.
    ways: tuple[Way, ...] = Field(default=(), exclude=True)
    # What a user without root can do where only root can repair it. No part of the JSON report.
    alone: str = Field(default="", exclude=True)
    # The rules that may explain it, of those that its own rule names; None: each. Not in the JSON.
    explained_by: tuple[str, ...] | None = Field(default=None, exclude=True)
    # What it may explain. Not in the JSON.
    explains: Explains = Field(default="all", exclude=True)
    # False: it stops no job, whatever its rule says. The JSON has it where it is false.
    stops: bool = Field(default=True, exclude_if=bool)

    @property
    def area(self) -> str:
        """The area of its rule."""
        return self.rule.partition(".")[0]


class OffFinding(Finding):
    """What would be a finding if `checks` of the inventory had not this entry.

    `entry` is a rule or an area. `until` is its last day and `reason` why; null and empty where
    the entry is `false`.
    """

    entry: str
    until: date | None = None
    reason: str = ""


def before_found(subject: str, node: str) -> str:
    """Return a subject as it is before what was found; of its logins a node is itself that."""
    return "" if subject in ("", node) else f"{subject}: "

"""The catalogue of faults: each file beside this one breaks a converged node in one known way."""

import shlex
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from gpu_node.lab import disks, lock, nodes, roster, sharing
from gpu_node.lab.errors import LabError
from gpu_node.lab.machine import last_line

HERE = Path(__file__).parent
Rule = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9]*\.[a-z][a-z0-9-]*$")]
Sentence = Annotated[str, StringConstraints(min_length=10, pattern=r"^[^\n]+$")]
Script = Annotated[str, StringConstraints(min_length=1)]


class Strict(BaseModel):
    """A part of a fault file; a key it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Expectation(Strict):
    """A finding that the fault must cause; one that `remains` after the repair is no error."""

    rule: Rule
    node: str
    fixable: bool
    remains: bool = False


class Container(Strict):
    """How the node is started anew, on its disk as it is, before the fault is injected."""

    cap_drop: list[str] = Field(min_length=1)


class Shared(Strict):
    """A directory that several nodes mount from one place, what the first of them has there."""

    path: str
    nodes: list[str] = Field(min_length=2)


class Fault(Strict):
    """How a node is broken, what must report it, and what must hold after the next converge."""

    name: str
    summary: Sentence
    node: str
    inject: Script
    expect: list[Expectation]
    repaired: bool
    after: Script
    changes: list[str]
    # The only message of the report about the node, if it is unreadable.
    unreadable: str = ""
    # What a deploy that does not repair it reports.
    says: str = ""
    # 1: facts are missing, so the nodes cannot be compared. 0: all its findings are info.
    exit_code: Literal[0, 1, 2] = 2
    # Flat host data keys (limits_nofile), or an area with its whole value.
    inventory: dict[str, Any] = {}
    container: Container | None = None
    shared: Shared | None = None
    # Areas in which another fault would hide it.
    needs: list[str] = []
    # It may hide any other, or keep it from being made.
    alone: bool = False

    @property
    def nodes(self) -> list[str]:
        """The nodes that are broken."""
        return self.shared.nodes if self.shared else [self.node]

    def forecast(self) -> str:
        """Describe the findings to expect, for a user who has broken a node manually."""
        lines = [f"{self.name}: {self.summary}"]
        if self.inventory:
            wanted = ", ".join(f"{key}: {value}" for key, value in self.inventory.items())
            lines.append(f"It is a fault only where the inventory wants {wanted}.")
        for expected in self.expect:
            lines.append(f"Expect {expected.rule} on {expected.node}.")
        if self.unreadable:
            lines.append(f"Expect {self.node} to be unreadable: {self.unreadable}.")
        if self.expect or self.unreadable:
            cure = "The next converge repairs it." if self.repaired else "No converge repairs it."
            lines.append(f"{cure} As found again: gpu-node lab reset {self.node}")
        else:
            lines.append("Expect no finding: this is not a fault, and no rule may report it.")
        return "\n".join(lines)


@cache
def catalogue(directory: Path = HERE) -> dict[str, Fault]:
    """Every fault by name, which is its file's name."""
    return {path.stem: load(path) for path in sorted(directory.glob("*.yml"))}


def load(path: Path) -> Fault:
    """Return one fault file; a LabError names the key and what is wrong with it."""
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise LabError(f"{path.name}: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(data, dict) or "name" in data:
        raise LabError(f"{path.name}: wanted a mapping without `name`, the file's name is the name")
    try:
        fault = Fault(name=path.stem, **data)
    except ValidationError as error:
        raise LabError(f"{path.name}: {first_problem(error)}") from None
    for name in [*fault.nodes, *(expected.node for expected in fault.expect)]:
        if name not in roster.NODES:
            raise LabError(f"{path.name}: no node {name!r}; known: {', '.join(roster.NODES)}")
    return fault


def first_problem(error: ValidationError) -> str:
    """The first thing pydantic objects to: key, objection, and what may be there for a key."""
    problem = error.errors()[0]
    where = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        allowed = ", ".join(name for name in Fault.model_fields if name != "name")
        return f"unknown key {where!r}; a fault has: {allowed}"
    return f"{where}: {problem['msg']}"


def find(name: str) -> Fault:
    """The fault of that name, or a LabError that lists those there are."""
    known = catalogue()
    if name not in known:
        close = get_close_matches(name, known, n=1)
        hint = f", did you mean {close[0]}?" if close else ""
        raise LabError(
            f"FAULT: found {name!r} (no such fault{hint}); allowed: one of the catalogue; next: "
            "gpu-node lab break lists them"
        )
    return known[name]


def listing() -> str:
    """Every fault with its summary, a line each."""
    known = catalogue()
    width = max(map(len, known), default=0)
    return "\n".join(f"{name:<{width}}  {fault.summary}" for name, fault in known.items())


def holds_afterwards(fault: Fault) -> str:
    """Read the end state on the node by the fault's own script: empty if it holds, else why not."""
    done = nodes.execute(fault.node, "set -eux\n" + fault.after)
    return "" if done.returncode == 0 else f"({done.returncode}) {done.stdout}{done.stderr}".strip()


@lock.alone
def inject(fault: Fault) -> None:
    """Break the fault's node; one that is as found counts as that still, with a fault more."""
    as_found = [node for node in fault.nodes if disks.is_as_found(node)]
    try:
        _inject(fault)
    finally:
        for node in as_found:
            disks.mark_complete(node)


def _inject(fault: Fault) -> None:
    if fault.container:
        nodes.recreate(fault.node, fault.container.cap_drop)
    if fault.shared:
        sharing.mount(fault.shared.nodes, fault.shared.path)
    done = nodes.execute(fault.node, "set -eu\n" + fault.inject)
    if done.returncode != 0:
        nodes.require_running(fault.node)
        reason = last_line(done.stderr) or last_line(done.stdout) or f"exit code {done.returncode}"
        command = f"gpu-node deploy {shlex.quote(roster.inventory())} --limit {fault.node}"
        raise LabError(
            f"{fault.node}: found it not converged ({reason}); allowed: a converged node, for "
            f"{fault.name}; next: {command}"
        )

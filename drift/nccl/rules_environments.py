"""NCCL rules about Python environments: missing, closed, or of another torch and NCCL."""

from collections.abc import Iterator
from dataclasses import replace
from shlex import quote

from gpu_node.drift.engine.compare import fault
from gpu_node.drift.engine.nodes import Nodes, Unlike
from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Prefix
from gpu_node.drift.nccl.environment_copy import hindrance, missing
from gpu_node.drift.nccl.libnccl import loaded
from gpu_node.drift.ssh.sudo import unseen_environments
from gpu_node.inventories.fields.paths import is_below


@check("nccl.environment-missing")
def environment_missing(at: At) -> Iterator[Fault]:
    nccl = at.wanted.nccl
    for prefix in missing(at.node, nccl):
        first = hindrance(at.node, nccl, prefix, at.nodes) if nccl else ""
        source = nccl.copy_from if nccl else None
        yield Fault(
            subject=Prefix(prefix),
            found="missing",
            wanted=f"as on {source}"
            if source and source != at.nodes.name
            else "a Python environment",
            fix=first
            if first is not None
            else f"copy it from {source} to the same path: a conda environment is "
            "complete; a venv also needs its base Python here, and its copy is removed if that "
            "does not run",
            fixable=first is None,
        )


@check("nccl.environment-closed")
def environment_closed(at: At) -> Iterator[Fault]:
    user = at.node.env.user.name if at.node.env.user else "the training user"
    # Those that the inventory names: what is found without it is what that user starts. One that is
    # missing, or closed to the report as well, has its finding.
    unseen = {*at.node.nccl.absent, *unseen_environments(at.node)}
    for each in at.node.env.closed or ():
        if each.environment in unseen:
            continue
        is_within = is_below(each.place, [each.environment])
        yield Fault(
            subject=Prefix(each.environment),
            found=f"closed to {user}: {each.place} (mode {each.mode}, owner {each.owner})",
            wanted=f"an environment that {user} can use",
            fix=f"chmod -R a+rX {quote(each.environment)}" if is_within else "",
            names={"USER": user, "FOLDER": quote(each.place)},
        )


@check("nccl.differs")
def differs(at: At) -> Iterator[Fault]:
    for each in at.nodes.unlike:
        if each.fact.row.rule == "nccl.differs":
            nccl = _same_nccl(each, at.nodes)
            starts = (
                f"the nodes load the same NCCL, {nccl}, and a job starts; a node with another "
                "torch may fail alone, or not read what another one saved"
            )
            made = fault(each)
            yield replace(made, cause=starts, severity="warning") if nccl else made


def _same_nccl(unlike: Unlike, nodes: Nodes) -> str:
    """Return the NCCL that nodes load whose torch differs; empty where it differs, or is unknown.

    The fact's name has the environment, where not all are compared at once.
    """
    fact, _, prefix = unlike.fact.name.partition(":")
    if fact != "nccl.torch" or unlike.value is None:
        return ""
    found = {
        loaded(each) if each and each.torch else ""
        for names in unlike.values.values()
        for name in names
        for folder, each in nodes.states[name].nccl.environments.items()
        if prefix in ("", folder)
    }
    return next(iter(found)) if len(found) == 1 else ""

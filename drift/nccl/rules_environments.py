"""NCCL rules about Python environments that are missing or closed."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Prefix
from gpu_node.drift.nccl.environment_copy import hindrance, missing
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

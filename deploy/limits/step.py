"""Limits: our file in limits.d sets what a session lacks; a new session proves it."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pyinfra.api import deploy

from gpu_node.deploy.engine.plan import Plan
from gpu_node.deploy.limits import operations as limits
from gpu_node.drift.limits import rules
from gpu_node.drift.limits.pam_limits import OwnLines, domains, own_lines
from gpu_node.facts.limits.state import OWN_FILE, UNITS

REPAIRS = (
    rules.nofile,
    rules.memlock,
    rules.stack_unlimited,
    rules.above_ceiling,
    rules.unconfirmed,
)
_TEMPLATES = Environment(  # noqa: S701 (it writes limits.conf, no page)
    loader=FileSystemLoader(Path(__file__).parent),
    undefined=StrictUndefined,
    keep_trailing_newline=True,
)


def content(lines: OwnLines, names: list[str]) -> str:
    """Return our limits.d file: the same `lines` for each of `names`, in limits.conf's units."""
    rows = [
        (kind, item, value if value == "unlimited" else value // UNITS[item])
        for (kind, item), value in sorted(lines.items(), key=lambda entry: entry[0][::-1])
    ]
    return _TEMPLATES.get_template("limits.conf.j2").render(domains=names, lines=rows)


@deploy("Limits")
def converge(plan: Plan) -> None:
    """Repair what the limit rules found."""
    wanted, found = plan.wanted.limits, plan.found.limits
    if wanted is None:
        return
    if plan.repairs(rules.unconfirmed):
        limits.settle(name=f"Confirm {Path(OWN_FILE).name} of an interrupted run", path=OWN_FILE)
    if found.user is not None and plan.repairs(
        rules.nofile, rules.memlock, rules.stack_unlimited, rules.above_ceiling
    ):
        text = content(own_lines(found, wanted), domains(found.user))
        name = f"Write {Path(OWN_FILE).name}"
        # A user whose sessions did not open before either is not locked out by the file.
        before = plan.found.ssh.account is not None or plan.found.env.bashrc is not None
        account = plan.trainer if before else ""
        limits.own_file(name=name, path=OWN_FILE, content=text, account=account)

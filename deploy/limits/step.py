"""Limits: a file of our own in limits.d says what a session lacks, proved in a new session."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pyinfra.api import deploy

from deploy.operations import limits
from deploy.plan import Plan
from drift.pam_limits import OwnLines, domains, own_lines
from facts.limits import OWN_FILE, UNITS

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent.parent / "templates"),
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
    if plan.repairs("limits.unconfirmed"):
        limits.settle(name=f"Confirm {Path(OWN_FILE).name} of a run cut off", path=OWN_FILE)
    if found.user is not None and plan.repairs(
        "limits.nofile", "limits.memlock", "limits.stack-unlimited", "limits.above-nr-open"
    ):
        text = content(own_lines(found, wanted), domains(found.user))
        limits.own_file(name=f"Write {Path(OWN_FILE).name}", path=OWN_FILE, content=text)

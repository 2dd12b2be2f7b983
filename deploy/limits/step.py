"""Limits: our file in limits.d sets what a session lacks; a new session proves it."""

from collections.abc import Container
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pyinfra.api import deploy

from gpu_node.deploy.engine.plan import Plan
from gpu_node.deploy.files import operations as files
from gpu_node.deploy.limits import operations as limits
from gpu_node.drift.engine.subject import Limit
from gpu_node.drift.limits import rules, rules_tasks, services
from gpu_node.drift.limits.pam_limits import (
    Kind,
    OwnLines,
    domains,
    higher,
    own_files,
    own_lines,
)
from gpu_node.drift.units import conf_limit
from gpu_node.facts.limits.confirmed import PAM_STACK
from gpu_node.facts.limits.state import Item

# Those that our lines in limits.d repair.
_BY_FILE = (
    rules.nofile,
    rules.memlock,
    rules.stack_unlimited,
    rules.above_ceiling,
    rules_tasks.nproc,
)
_TEMPLATES = Environment(  # noqa: S701 (it writes limits.conf, no page)
    loader=FileSystemLoader(Path(__file__).parent),
    undefined=StrictUndefined,
    keep_trailing_newline=True,
)


def content(
    lines: OwnLines, names: list[str], higher: Container[tuple[str, Kind, Item]] = ()
) -> str:
    """Return our limits.d file: the same `lines` for each of `names`, in limits.conf's units.

    Without those that are `higher` by a line of others.
    """
    rows = [
        (name, kind, item, conf_limit(value, item))
        for name in names
        for (kind, item), value in sorted(lines.items(), key=lambda entry: entry[0][::-1])
        if (name, kind, item) not in higher
    ]
    return _TEMPLATES.get_template("limits.conf.j2").render(lines=rows)


@deploy("Limits")
def converge(plan: Plan) -> None:
    """Repair what the limit rules found."""
    wanted, state = plan.wanted.limits, plan.state.limits
    if wanted is None:
        return
    # A user whose sessions did not open before either is not locked out by the file.
    before = plan.state.ssh.account is not None or plan.state.env.bashrc is not None
    account = plan.trainer if before else ""
    if state.user is not None and plan.repairs(*_BY_FILE):
        lines = own_lines(state, wanted)
        text = content(lines, domains(state.user), higher(state, lines))
        for path in own_files(state, wanted):
            name = f"Write {Path(path).name}"
            limits.own_file(name=name, path=path, content=text, account=account)
    daemon = services.slurmd(state)
    if daemon is not None and any(
        plan.repairs(rules.not_effective, about=Limit(item, f"{item} of slurmd"))
        for item in services.KEYS
    ):
        path, text = services.drop_in(daemon.unit), services.text_of(daemon, wanted)
        files.write(name=f"Write {path}", path=path, content=text)
    if rules.adds_pam_limits(state) and plan.repairs(rules.not_effective, *_BY_FILE):
        name = f"Add pam_limits to {PAM_STACK}"
        limits.pam_limits(name=name, path=PAM_STACK, line=rules.PAM_LINE, account=account)

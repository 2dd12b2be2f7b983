"""The plan for a node: what its one probe found, what the inventory wants, and the findings."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from pyinfra import logger
from pyinfra.api import Host, State
from pyinfra.api.exceptions import PyinfraError

from gpu_node.deploy.engine.baseline import among, state_of, states
from gpu_node.deploy.engine.judging import judged, wanted_of
from gpu_node.deploy.engine.run import node_of
from gpu_node.deploy.engine.scope import part_of
from gpu_node.drift.driver.rules import module_not_built
from gpu_node.drift.driver.rules_gpus import (
    library_mismatch,
    not_loaded,
    unit_waits,
    unsupported_gpu,
)
from gpu_node.drift.driver.rules_risks import nouveau, secure_boot
from gpu_node.drift.driver.target import survives_boot, target
from gpu_node.drift.engine.finding import Finding, Severity
from gpu_node.drift.engine.neighbours import Among
from gpu_node.drift.engine.rule import Rule
from gpu_node.drift.engine.subject import Subject
from gpu_node.drift.ssh.sudo import becoming_root
from gpu_node.facts.ask.execute import NoAnswer, execute
from gpu_node.facts.ask.session import ProbeError
from gpu_node.facts.ask.sudo import why_refused
from gpu_node.facts.node import NodeState
from gpu_node.facts.probe.bounds import in_words
from gpu_node.facts.probe.request import request_of
from gpu_node.inventories.connection.commands import password_shown
from gpu_node.inventories.escape import visible
from gpu_node.inventories.schema import NodeWanted

SUDO_SECONDS = 20
S = TypeVar("S", bound=Subject)
# pyinfra would treat sudo's message as a request to prompt for the password.
_ASK_SUDO = """
output=$(LC_ALL=C sudo -n true 2>&1) && exit 0
printf '%s\\n' "$output" | sed 's/^/refused: /'
exit 1
"""

# pyinfra's ways to another user.
_BECOMING = ("_sudo", "_su_user", "_doas")
# Findings that may need a reboot: a module that cannot be unloaded, or a kernel that was removed.
_REBOOTED = (library_mismatch, not_loaded, nouveau, module_not_built)
# With an error of one of these rules, the node may have no GPUs after a boot.
_BARRED = (secure_boot, unsupported_gpu)


@dataclass(frozen=True)
class Plan:
    """Everything that steps need: they do not read a node themselves."""

    wanted: NodeWanted
    found: NodeState
    findings: tuple[Finding, ...]
    # The other nodes of the cluster, and what was found on them.
    among: Among
    # Whether steps may hurt a running job: --data allow_disruption=true.
    allow_disruption: bool = False
    # Whether a node may be rebooted if nothing else helps: --data reboot=true.
    reboot: bool = False
    # The training user.
    trainer: str = "root"
    # Whether an administrator's locks on packages are replaced: --data override_locks=true.
    override_locks: bool = False
    # What rules find that the inventory turns off: only guards read it.
    muted: tuple[Finding, ...] = ()

    def findings_of(self, *rules: Rule) -> tuple[Finding, ...]:
        """Return the findings of `rules`, including those that the deploy cannot repair."""
        ids = {rule.id for rule in rules}
        return tuple(each for each in self.findings if each.rule in ids)

    def guards(self, *rules: Rule) -> tuple[Finding, ...]:
        """Return the findings by which a step must stop, also of rules that are turned off."""
        ids = {rule.id for rule in rules}
        muted = tuple(each for each in self.muted if each.rule in ids)
        return (*self.findings_of(*rules), *muted)

    def repairs(
        self, *rules: Rule, about: Subject | None = None, severity: Severity | None = None
    ) -> bool:
        """Whether one of `rules` has a finding, about that subject, that the deploy can repair."""
        return any(
            each.fixable and about in (None, each.about) and severity in (None, each.severity)
            for each in self.findings_of(*rules)
        )

    def subjects(self, kind: type[S], *rules: Rule, severity: Severity | None = None) -> list[S]:
        """Return the subjects of a kind that the deploy can repair by `rules`, each once."""
        repaired = [each for each in self.findings_of(*rules) if each.fixable]
        subjects = [each.about for each in repaired if severity in (None, each.severity)]
        return list(dict.fromkeys(each for each in subjects if isinstance(each, kind)))

    @property
    def reboots(self) -> bool:
        """Whether a reboot may help the node, is allowed, and would not lose what works now."""
        if not self.reboot or self.wanted.driver is None:
            return False
        version = target(self.found.driver, self.wanted.driver)
        barred = any(each.severity == "error" for each in self.guards(*_BARRED))
        if version is None or barred or not survives_boot(self.found.driver, version):
            return False
        return bool(self.findings_of(*_REBOOTED))

    @property
    def reloads(self) -> bool:
        """Whether systemd is reloaded for a unit that it has not read, because that is allowed."""
        return self.allow_disruption and bool(self.findings_of(unit_waits))

    @property
    def changes(self) -> bool:
        """Whether the run changes the node."""
        return self.reboots or self.reloads or any(each.fixable for each in self.findings)

    @property
    def has_copies(self) -> bool:
        """Whether a node of this run lacks a Python environment: its source must log in there."""
        return any(each.nccl.absent for each in self.among.found.values())

    @property
    def manual(self) -> list[Finding]:
        """The errors that the deploy cannot repair: they need manual action."""
        return [each for each in self.findings if each.severity == "error" and not each.fixable]


def plan(host: Host) -> Plan | None:
    """Probe a host, once, and judge it; if that is impossible, fail the host, return None."""
    try:
        plan = _planned(host)
        if plan.changes:
            _require_root(host, plan)
            _require_sudo(host)
    except ProbeError as error:
        logger.error(f"{host.print_prefix}{visible(str(error))}")
        # In a deploy file `host` is a proxy for the current host, and must not be kept.
        host.state.fail_hosts({host.state.inventory.get_host(host.name)})
        return None
    return plan


def plans(state: State) -> dict[str, Plan]:
    """Return the plans of the nodes of a run, in their order, without nodes that cannot be planned.

    The host's own `plan` reports the reason.
    """
    found: dict[str, Plan] = {}
    for host in (each for each in state.inventory if each in state.active_hosts):
        with suppress(ProbeError, PyinfraError):
            found[host.name] = _planned(host)
    return found


def _planned(host: Host) -> Plan:
    """Return the plan for a host, made once in a run; raises ProbeError and PyinfraError."""
    node = node_of(host)
    if node.plan is None:
        try:
            node.plan = plan = _plan(host)
            # Each node asks whether another one changes: an error in that must break only its own
            # plan.
            _ = plan.changes, plan.manual, plan.has_copies
        except (ProbeError, PyinfraError) as error:
            node.plan = error
        except Exception as error:  # of whatever class: an answer of the node's made it
            node.plan = ProbeError(f"its answer is not understood: {in_words(error)}")
    if isinstance(node.plan, Exception):
        raise node.plan
    return node.plan


def _plan(host: Host) -> Plan:
    """Judge a host by the only probe of this run; raises ProbeError and PyinfraError."""
    wanted, found, before = wanted_of(host), state_of(host), states(host.state)
    judgement = judged(host.state, before)
    # If no rule between nodes can judge an answer, no other node is changed because of it.
    sound = {name: each for name, each in before.items() if name not in judgement.blamed}
    around = among(host, sound)
    switches = ("allow_disruption", "reboot", "override_locks")
    allowed, reboot, override = (host.data.get(key) is True for key in switches)
    findings = part_of(host).of(host.name, judgement.findings[host.name])
    muted = part_of(host).of(host.name, judgement.muted.get(host.name, ()))
    trainer = request_of(host.data.dict()).user or "root"
    return Plan(wanted, found, findings, around, allowed, reboot, trainer, override, muted)


def any_changes(state: State) -> bool:
    """Whether this run changes a node: then each node is judged again afterwards."""
    return any(each.changes for each in plans(state).values())


def _require_root(host: Host, plan: Plan) -> None:
    """Raise ProbeError if the SSH user is not root, and the inventory has no way to become root."""
    user, data = plan.found.limits.user, host.data.dict()
    if user is None or user.uid == 0 or any(data.get(key) for key in _BECOMING):
        return
    raise ProbeError(
        f"the deploy needs root, and {user.name} is not root; nothing was changed: "
        f"{becoming_root(user.name)}"
    )


def _require_sudo(host: Host) -> None:
    """Raise ProbeError if sudo refuses, or the inventory has a password for it.

    The user is not asked for one: the prompt would come from the node. pyinfra would end in a
    traceback, or each operation with sudo's message.
    """
    data = host.data.dict()
    if problem := password_shown(data):
        raise ProbeError(f"{problem}; nothing was changed")
    if not data.get("_sudo"):
        return
    try:
        done, output = execute(host.connector, _ASK_SUDO, SUDO_SECONDS)
    except NoAnswer as error:
        raise ProbeError(f"sudo: {error}; nothing was changed") from error
    if done:
        return
    words = "\n".join(line.removeprefix("refused: ") for line in output.stdout_lines)
    refused = why_refused(words, data.get("ssh_user") or "")
    raise ProbeError(f"{refused.reason} ({refused.words}); nothing was changed: {refused.fix}")

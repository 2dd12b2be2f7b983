"""The plan for a node: what its one probe found, what the inventory wants, and the findings."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from pyinfra import logger
from pyinfra.api import Host, State, StringCommand
from pyinfra.api.exceptions import PyinfraError

from deploy.before import among, state_of, states
from deploy.part import part_of
from drift.among import Among
from drift.check import check
from drift.driver import survives_boot, target
from drift.finding import Finding, Severity
from drift.report.visible import visible
from facts.named import named_by
from facts.node import NodeState
from facts.session import ProbeError
from facts.sudo import why_refused
from inventories.schema import InventoryError, NodeWanted

SUDO_SECONDS = 20
# What was planned for each node, or why it could not be.
_made: WeakKeyDictionary[State, dict[str, Plan | ProbeError | PyinfraError]] = WeakKeyDictionary()
# pyinfra would take sudo's own line for a request to ask for the password there and then.
_ASK_SUDO = """
output=$(LC_ALL=C sudo -n true 2>&1) && exit 0
printf '%s\\n' "$output" | sed 's/^/refused: /'
exit 1
"""

# What may need a reboot: a module that cannot be unloaded, or a kernel that was removed.
_REBOOTED = (
    *("driver.library-mismatch", "driver.not-loaded", "driver.nouveau"),
    "driver.module-not-built",
)
# With which, where nobody has repaired them, a boot may take the GPUs away.
_BARRED = ("driver.secure-boot", "driver.unsupported-gpu")


@dataclass(frozen=True)
class Plan:
    """Everything the steps ask: they look at no node themselves."""

    wanted: NodeWanted
    found: NodeState
    findings: tuple[Finding, ...]
    # The other nodes of the cluster, and what was found on them.
    among: Among
    # Whether steps may hurt a running job: --data allow_disruption=true.
    allow_disruption: bool = False
    # Whether a node may be rebooted where nothing else helps: --data reboot=true.
    reboot: bool = False
    # The user who trains.
    trainer: str = "root"
    # Whether an administrator's locks on packages are replaced: --data override_locks=true.
    override_locks: bool = False

    def repairs(self, *rules: str) -> bool:
        """Whether one of `rules` has a finding that the deploy can repair."""
        return any(each.fixable and each.rule in rules for each in self.findings)

    def subjects(self, *rules: str, severity: Severity = "error") -> list[str]:
        """Return what the findings of `rules` are about that the deploy can repair, each once."""
        repaired = [each for each in self.findings if each.fixable and each.rule in rules]
        return list(dict.fromkeys(each.subject for each in repaired if each.severity == severity))

    @property
    def reboots(self) -> bool:
        """Whether a reboot may help the node, is allowed, and would not lose what there is."""
        if not self.reboot or self.wanted.driver is None:
            return False
        version = target(self.found.driver, self.wanted.driver)
        barred = any(each.rule in _BARRED and each.severity == "error" for each in self.findings)
        if version is None or barred or not survives_boot(self.found.driver, version):
            return False
        return any(each.rule in _REBOOTED for each in self.findings)

    @property
    def reloads(self) -> bool:
        """Whether systemd is reloaded for a unit that it has not read: that was allowed."""
        waits = any(each.rule == "driver.unit-waits" for each in self.findings)
        return self.allow_disruption and waits

    @property
    def changes(self) -> bool:
        """Whether the run changes the node."""
        return self.reboots or self.reloads or any(each.fixable for each in self.findings)

    @property
    def has_copies(self) -> bool:
        """Whether a node of this run lacks a Python environment: its source must get in there."""
        return any(each.nccl.absent for each in self.among.found.values())

    @property
    def by_hand(self) -> list[Finding]:
        """The findings that keep the node from being right and that only a person can repair."""
        return [each for each in self.findings if each.severity == "error" and not each.fixable]


def wanted_of(host: Host) -> NodeWanted:
    """Return what the inventory, and --data, want of a host; PyinfraError names a bad value."""
    try:
        return NodeWanted.from_data(host.data.dict())
    except InventoryError as error:
        raise PyinfraError(f"{host.name}: {error}") from error


def plan(host: Host) -> Plan | None:
    """Probe a host, once, and judge it; None, and the host failed, where no run can go on."""
    try:
        plan = _planned(host)
        if plan.changes:
            _require_sudo(host)
    except ProbeError as error:
        logger.error(f"{host.print_prefix}{visible(str(error))}")
        # In a deploy file `host` stands for whichever host is at work, and must not be kept.
        host.state.fail_hosts({host.state.inventory.get_host(host.name)})
        return None
    return plan


def plans(state: State) -> dict[str, Plan]:
    """Return what is planned for each node of a run, in their order; those that cannot be are not.

    Why not, a host's own `plan` reports.
    """
    found: dict[str, Plan] = {}
    for host in (each for each in state.inventory if each in state.active_hosts):
        with suppress(ProbeError, PyinfraError):
            found[host.name] = _planned(host)
    return found


def _planned(host: Host) -> Plan:
    """Return the plan for a host, made once a run; raises ProbeError and PyinfraError."""
    made = _made.setdefault(host.state, {})
    if host.name not in made:
        try:
            made[host.name] = _plan(host)
        except (ProbeError, PyinfraError) as error:
            made[host.name] = error
    found = made[host.name]
    if isinstance(found, Exception):
        raise found
    return found


def _plan(host: Host) -> Plan:
    """Judge a host by the one probe of this run; raises ProbeError and PyinfraError."""
    wanted, found = wanted_of(host), state_of(host)
    around = among(host, states(host.state))
    switches = ("allow_disruption", "reboot", "override_locks")
    allowed, reboot, override = (host.data.get(key) is True for key in switches)
    findings = part_of(host).of(host.name, check(found, wanted, around))
    trainer = named_by(host.data.dict()).user or "root"
    return Plan(wanted, found, findings, around, allowed, reboot, trainer, override)


def any_changes(state: State) -> bool:
    """Whether this run changes a node: then each node is judged again after that."""
    return any(each.changes for each in plans(state).values())


def _require_sudo(host: Host) -> None:
    """Raise ProbeError where sudo refuses; it may ask for a password that there is, or a user.

    pyinfra would end in a traceback, or each operation in sudo's own words.
    """
    data = host.data.dict()
    if not data.get("_sudo"):
        return
    asked = StringCommand(_ASK_SUDO)
    done, output = host.connector.run_shell_command(asked, False, False, _timeout=SUDO_SECONDS)
    if done:
        return
    words = "\n".join(line.removeprefix("refused: ") for line in output.stdout_lines)
    refused = why_refused(words, data.get("ssh_user") or "")
    if refused.asks_password and (data.get("_sudo_password") or sys.stdin.isatty()):
        return
    raise ProbeError(f"{refused.reason} ({refused.words}); nothing was changed: {refused.fix}")

"""Reboots: one node at a time, after a drain, until the first that is not proved right."""

import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic, sleep

import gevent
from pyinfra import logger
from pyinfra.api import Host, State, StringCommand
from pyinfra.connectors.base import BaseConnector

from gpu_node.deploy.engine.baseline import states
from gpu_node.deploy.engine.planning import wanted_of
from gpu_node.deploy.engine.run import Slot, of_operation, run_of
from gpu_node.deploy.engine.scripts import RUN_SECONDS
from gpu_node.drift.engine.check import check
from gpu_node.drift.engine.finding import Finding
from gpu_node.facts.ask.controller import run_here
from gpu_node.facts.ask.execute import NoAnswer, execute
from gpu_node.facts.ask.session import fresh, probe
from gpu_node.facts.node import NodeState
from gpu_node.facts.probe.lines import lines_of
from gpu_node.inventories.escape import visible

# GPU servers check their memory for minutes before they boot.
SECONDS = 1800
# sshd answers before the last units of a boot have started.
SETTLE_SECONDS = 180
_INTERVAL = 5
# A login and the probe: a node that is booting may accept a connection and send nothing.
TRY_SECONDS = 300
_MOST_SHOWN = 3
# The script waits for another run of ours, and checks each process of the node.
CHECK_SECONDS = RUN_SECONDS + 120
DRAIN_SECONDS = 600
# Everything: drain and resume, two checks, the boot, and the questions after it.
LIMIT_SECONDS = 2 * DRAIN_SECONDS + 2 * CHECK_SECONDS + SECONDS + SETTLE_SECONDS + 2 * TRY_SECONDS
LAST_CHARACTERS = 2000
_ASK_SECONDS = 20
# On the node; /run is emptied at boot, and the file exists only if a reboot was requested.
MARK = "/run/gpu-node.reboot"
NOT_DUE = "gpu-node: reboot: no longer needed"
_BOOT_ID = "cat /proc/sys/kernel/random/boot_id"


@dataclass
class _Reboots:
    """The reboots of a run."""

    # The node that is not proved right: no other one is rebooted.
    stopped_at: str = ""
    # The id of each node's boot before its reboot.
    boots_before: dict[str, str] = field(default_factory=dict)


_REBOOTS = Slot(_Reboots)


def roll_out(
    state: State,
    host: Host,
    version: str,
    look: StringCommand,
    command: StringCommand,
    drain: str,
    resume: str,
) -> bool:
    """Drain a node, reboot it by a script that may refuse, wait for its driver, and resume it.

    `look` is the script that only checks, so that no node is drained in vain: a scheduler may keep
    the reboot that was requested from it. `drain` and `resume` run on this machine, `{node}` is the
    node's name; a node that does not return stays drained.
    """
    if not begin(state, host):
        return False
    if drain:
        done, printed = _run(state, host, look)
        if not done or NOT_DUE in printed:
            return bool(done)
        if problem := on_controller(drain, host.name):
            logger.error(
                f"{host.print_prefix}not rebooted: drain failed: {visible(problem)}; the "
                "node may be drained nevertheless"
            )
            return False
    try:
        done, _ = _run(state, host, command)
        if done is not False and not finish(state, host, version, is_answered=done is True):
            return False
    except TimeoutError:
        return _stop(state, host, f"is not back after {LIMIT_SECONDS} s")
    except BaseException as error:  # whatever it is, the node may be away
        _stop(state, host, f"cannot be proved right after its reboot: {_in_words(error)}")
        raise
    if resume and (problem := on_controller(resume, host.name)):
        logger.error(f"{host.print_prefix}resume failed: {visible(problem)}")
        return False
    return done is not False


def _run(state: State, host: Host, command: StringCommand) -> tuple[bool | None, str]:
    """Run one of our scripts, and show its output at once; return whether it succeeded, and that.

    None: the node gave no answer. If the scheduler reboots it, the session may end before that.
    """
    rights = of_operation(state, host)
    try:
        done, output = execute(host.connector, command, CHECK_SECONDS, rights, show=True)
    except NoAnswer as error:
        logger.error(f"{host.print_prefix}no answer: {visible(str(error))}")
        return None, ""
    if not done and _answer(host.connector, _BOOT_ID) is None:
        return None, ""
    return done, "\n".join(output.stdout_lines)


def on_controller(command: str, node: str) -> str:
    """Run a command of the inventory on this machine; return how it failed, or nothing."""
    try:
        argv = ["/bin/sh", "-c", command.replace("{node}", shlex.quote(node))]
        done = run_here(argv, DRAIN_SECONDS, merged=True)
    except subprocess.TimeoutExpired:
        return f"{command!r} did not end within {DRAIN_SECONDS} s"
    if done.returncode == 0:
        return ""
    lines = lines_of(done.stdout[-LAST_CHARACTERS:].strip())
    return f"{command!r} ended with {done.returncode}" + (f": {lines[-1]}" if lines else "")


def begin(state: State, host: Host) -> bool:
    """Refuse if another node did not return; else record the boot id of this one."""
    reboots = run_of(state).of(_REBOOTS)
    if reboots.stopped_at:
        logger.error(
            f"{host.print_prefix}not rebooted: {reboots.stopped_at} did not come back with its "
            "driver"
        )
        return False
    boot = _answer(host.connector, _BOOT_ID)
    if boot is None:
        return _stop(state, host, "cannot read its boot ID; it was not rebooted")
    reboots.boots_before[host.name] = boot
    return True


def finish(state: State, host: Host, version: str, is_answered: bool = True) -> bool:
    """Wait until the node has rebooted and is proved right; it may not have needed a reboot.

    `is_answered`: whether the script that reboots has ended; without that it may still do so.
    """
    asked = _answer(host.connector, f"[ -e {MARK} ] && echo yes || echo no")
    if asked == "no":
        return is_answered or _stop(state, host, "cannot determine whether it will be rebooted")
    before = run_of(state).of(_REBOOTS).boots_before.get(host.name, "")
    problem = _until(lambda: _away(host, before), SECONDS)
    if problem:
        return _stop(state, host, f"did not come back within {SECONDS} s: look at its console")
    problem = _until(lambda: _wrong(state, host, version), SETTLE_SECONDS)
    return not problem or _stop(state, host, problem)


def _until(problem: Callable[[], str], seconds: float) -> str:
    """Ask until there is no problem, at most so long; return the last one.

    A node that boots breaks sessions in many ways: each of them is a problem, and is asked again.
    """
    end = monotonic() + seconds
    while True:
        sleep(_INTERVAL)
        try:
            with gevent.Timeout(TRY_SECONDS):
                found = problem()
        except (Exception, gevent.Timeout) as error:
            found = f"is back, and its state is unknown: {_in_words(error)}"
        if not found or monotonic() >= end:
            return found


def _away(host: Host, boot_before: str) -> str:
    """Return why a node is not back: it does not answer, or has not booted since."""
    with fresh(host) as connector:
        boot = _answer(connector, _BOOT_ID)
    return "" if boot not in (None, boot_before) else "has not booted"


def _wrong(state: State, host: Host, version: str) -> str:
    """Return what is wrong with a node that is back: its driver, or an error that it has since."""
    with fresh(host) as connector:
        now = probe(host, connector)
    driver = now.driver
    loaded = driver.loaded.nvidia if driver.loaded else ""
    if loaded != version or driver.smi is None or not driver.smi.gpus:
        printed = driver.smi.output if driver.smi else ""
        message = f"; nvidia-smi prints: {printed}" if printed else ""
        what = f"nvidia {loaded}" if loaded else "no nvidia module"
        return f"is back with {what} loaded, wanted {version}{visible(message)}"
    known = {(each.rule, each.subject) for each in _errors(host, states(state).get(host.name))}
    new = [each for each in _errors(host, now) if (each.rule, each.subject) not in known]
    shown = "; ".join(f"{each.rule}: {each.subject}: {each.found}" for each in new[:_MOST_SHOWN])
    return f"is back with errors that it did not have before: {visible(shown)}" if new else ""


def _errors(host: Host, state: NodeState | None) -> list[Finding]:
    """Return the errors of a node alone: the others may be repaired in this run."""
    found = check(state, wanted_of(host)) if state is not None else []
    return [each for each in found if each.severity == "error"]


def _in_words(error: BaseException) -> str:
    return visible(str(error) or type(error).__name__)


def _stop(state: State, host: Host, why: str) -> bool:
    run_of(state).of(_REBOOTS).stopped_at = host.name
    logger.error(f"{host.print_prefix}{why}; no other node will be rebooted")
    return False


def _answer(connector: BaseConnector, command: str) -> str | None:
    """Return the last line of a command's output; None if it has none."""
    try:
        done, output = execute(connector, command, _ASK_SECONDS)
    except NoAnswer:
        return None
    lines = [line.strip() for line in output.stdout_lines if line.strip()]
    return lines[-1] if done and lines else None

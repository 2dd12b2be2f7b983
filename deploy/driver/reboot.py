"""Reboots: one node at a time, after a drain; after the first that does not return, they stop."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import dataclass, field
from time import monotonic, sleep

from pyinfra import logger
from pyinfra.api import Host, State, StringCommand
from pyinfra.api.exceptions import PyinfraError
from pyinfra.connectors.base import BaseConnector

from gpu_node.deploy.engine.rights import of_operation
from gpu_node.deploy.engine.run import Slot, run_of
from gpu_node.deploy.engine.scripts import RUN_SECONDS
from gpu_node.facts.ask.controller import run_here
from gpu_node.facts.ask.execute import NoAnswer, execute
from gpu_node.facts.ask.session import ProbeError, fresh, probe
from gpu_node.facts.probe.lines import lines_of
from gpu_node.inventories.escape import visible

# GPU servers check their memory for minutes before they boot.
SECONDS = 1800
_INTERVAL = 5
# The script waits for another run of ours, and checks each process of the node.
CHECK_SECONDS = RUN_SECONDS + 120
DRAIN_SECONDS = 600
# Everything: drain and resume, two checks, the boot, and the questions after it.
LIMIT_SECONDS = 2 * DRAIN_SECONDS + 2 * CHECK_SECONDS + SECONDS + 300
LAST_CHARACTERS = 2000
_ASK_SECONDS = 20
# On the node; /run is emptied at boot, and the file exists only if a reboot was requested.
MARK = "/run/gpu-node.reboot"
NOT_DUE = "gpu-node: reboot: no longer needed"
_BOOT_ID = "cat /proc/sys/kernel/random/boot_id"


@dataclass
class _Reboots:
    """The reboots of a run."""

    # The node that did not come back: no other one is rebooted.
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
        output = _run(state, host, look)
        if output is None or NOT_DUE in output:
            return output is not None
        if problem := on_controller(drain, host.name):
            logger.error(
                f"{host.print_prefix}not rebooted: drain failed: {visible(problem)}; the "
                "node may be drained nevertheless"
            )
            return False
    try:
        done = _run(state, host, command) is not None
        # If the scheduler reboots the node, the session may end before the script has answered.
        refused = not done and _answer(host.connector, _BOOT_ID) is not None
        if not refused and not finish(state, host, version):
            return False
    except TimeoutError:
        return _stop(state, host, f"is not back after {LIMIT_SECONDS} s")
    if resume and (problem := on_controller(resume, host.name)):
        logger.error(f"{host.print_prefix}resume failed: {visible(problem)}")
        return False
    return not refused


def _run(state: State, host: Host, command: StringCommand) -> str | None:
    """Run one of our scripts, and show its output at once; None if it fails."""
    rights = of_operation(state, host)
    try:
        done, output = execute(host.connector, command, CHECK_SECONDS, rights, show=True)
    except NoAnswer as error:
        logger.error(f"{host.print_prefix}no answer: {visible(str(error))}")
        return None
    return "\n".join(output.stdout_lines) if done else None


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


def finish(state: State, host: Host, version: str) -> bool:
    """Wait until the node has rebooted and has its driver; it may not have needed one."""
    asked = _answer(host.connector, f"[ -e {MARK} ] && echo yes || echo no")
    if asked == "no":
        return True
    end = monotonic() + SECONDS
    while monotonic() < end:
        sleep(_INTERVAL)
        if _is_back(host, run_of(state).of(_REBOOTS).boots_before.get(host.name, "")):
            return _is_right(state, host, version)
    return _stop(state, host, f"did not come back within {SECONDS} s: look at its console")


def _is_back(host: Host, boot_before: str) -> bool:
    """Whether the node answers, and has booted since."""
    try:
        with fresh(host) as connector:
            boot = _answer(connector, _BOOT_ID)
    except PyinfraError:
        return False
    return boot is not None and boot != boot_before


def _is_right(state: State, host: Host, version: str) -> bool:
    try:
        with fresh(host) as connector:
            driver = probe(host, connector).driver
    except (PyinfraError, ProbeError) as error:
        return _stop(state, host, f"is back, and its state is unknown: {visible(str(error))}")
    loaded = driver.loaded.nvidia if driver.loaded else ""
    if loaded == version and driver.smi is not None and driver.smi.gpus:
        return True
    message = f"; nvidia-smi says: {driver.smi.output}" if driver.smi and driver.smi.output else ""
    what = f"nvidia {loaded}" if loaded else "no nvidia module"
    return _stop(state, host, f"is back with {what} loaded, wanted {version}{visible(message)}")


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

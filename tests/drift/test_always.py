"""Which rules are judged without a word in the inventory, and which key each other one needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_node.drift.engine.check import check, judge
from gpu_node.drift.engine.finding import Finding
from gpu_node.drift.engine.guard import Judged
from gpu_node.drift.engine.neighbours import Among
from gpu_node.drift.engine.rules import RULES
from gpu_node.facts.node import NodeState
from gpu_node.facts.probe.peers import peers
from gpu_node.inventories.keys import keys_of
from gpu_node.inventories.schema import HostEntry, NodeWanted
from tests import case_files
from tests.drift import states

# Judged whatever the inventory names: a new rule is in one of the two lists.
_ALWAYS = {
    "clock": ("skew",),
    "host": (
        "disk-full",
        "memory-pressure",
        "name",
        "one-machine",
        "oom-killed",
        "timezone-differs",
        "unclean-boot",
    ),
    "driver": (
        "cuda-init",
        "differs",
        "dkms-missing",
        "headers-missing",
        "library-mismatch",
        "module-not-built",
        "next-boot",
        "not-installed",
        "not-loaded",
        "nouveau",
        "secure-boot",
        "smi-fails",
        "too-old",
        "unattended-updates",
        "unsupported-gpu",
        "upgrade-waiting",
    ),
    "env": (
        "conflict",
        "cover-up",
        "debug-left-on",
        "deprecated",
        "invalid-value",
        "not-writable",
        "proxy",
        "shell-prints",
        "unknown-variable",
        "unreached",
    ),
    "limits": (
        "above-nr-open",
        "differs",
        "memlock",
        "nofile",
        "nproc",
        "line-misread",
        "unconfirmed",
    ),
    "nccl": (
        "cuda-driver",
        "differs",
        "duplicate-packages",
        "duplicate-wheels",
        "environment-unclear",
        "loaded-mismatch",
        "package-damaged",
        "package-mismatch",
        "shadowed",
        "torch-gpu",
        "wheel-damaged",
    ),
    "network": (
        "ifname-wrong",
        "interface-down",
        "launcher-override",
        "mtu-differs",
        "slow-link",
        "speed-differs",
        "subnet-shared",
    ),
    "shm": (
        "above-memory",
        "container",
        "differs",
        "docker-default",
        "orphaned-trainer",
        "permissions",
        "remove-ipc",
        "stale-segments",
        "too-small",
    ),
    "ssh": (
        "host-key-shared",
        "logins-untried",
        "sudo-refused",
    ),
    "toolchain": (
        "bitsandbytes-cpu",
        "cmake-differs",
        "compat-library",
        "compiler",
        "cuda-differs",
        "cuda-mismatch",
        "gcc-differs",
        "ninja",
        "ops-foreign",
        "package-differs",
        "python-differs",
    ),
}
ALWAYS = {f"{area}.{name}" for area, names in _ALWAYS.items() for name in names}
# The key without which a rule is not judged.
NEEDS = {
    "driver.gpu-differs": "gpu.model",
    "driver.kernel-hold": "driver",
    "driver.package-missing": "driver.packages",
    "driver.persistence": "driver.persistence",
    "driver.unit-waits": "driver.persistence",
    "driver.version-differs": "driver.version",
    "env.block-outdated": "env",
    "env.left-behind": "launcher.user",
    "env.not-set": "env",
    "env.stale-process": "env",
    "env.user-missing": "launcher.user",
    "host.memory-for-job": "jobs.parameters",
    "limits.not-effective": "limits.nofile",
    "limits.stack-unlimited": "limits.stack",
    "limits.training-user": "limits.nofile",
    "nccl.environment-missing": "nccl.environments",
    "nccl.package-locked": "nccl.packages",
    "nccl.package-missing": "nccl.packages",
    "nccl.package-unheld": "nccl.packages",
    "nccl.torch-differs": "nccl.environments",
    "network.address-missing": "network.interface",
    "network.ifname-missing": "network.interface",
    "network.interface-gone": "network.interface",
    "shm.not-persistent": "shm.size",
    "toolchain.cmake-old": "toolchain.cmake",
    "toolchain.cmake-shadowed": "toolchain.cmake",
    "toolchain.pdsh": "launcher.kind",
    "toolchain.precision": "jobs.precision",
    "workspace.differs": "workspace.path",
    "workspace.directory": "directories",
    "workspace.exclude-absolute": "workspace.exclude",
    "workspace.missing": "workspace.path",
    "workspace.lfs-pointer": "workspace.path",
    "workspace.rsync-missing": "workspace.path",
    **dict.fromkeys(
        (
            *("ssh.block-outdated", "ssh.host-key-changed", "ssh.hosts-rewritten"),
            *("ssh.key-missing", "ssh.key-shared", "ssh.key-unusable", "ssh.logins-partial"),
            *("ssh.name-unresolved", "ssh.no-login", "ssh.not-authorised", "ssh.permissions"),
            *("ssh.port-unset", "ssh.unconfirmed", "ssh.unknown-host-key"),
        ),
        "ssh.mesh",
    ),
}
_CASES = sorted((Path(__file__).parent / "cases").glob("*/*.yml"))
NOTHING = NodeWanted.from_data({"ssh_hostname": "192.0.2.10"})


def test_each_rule_says_which_it_is() -> None:
    """A rule that needs no wanted value is judged always; any other one names its key."""
    assert {each.id for each in RULES.values() if each.always} == ALWAYS
    assert {each.id: each.needed_key for each in RULES.values() if not each.always} == NEEDS


def test_each_key_is_one_of_the_inventory() -> None:
    """What a finding says to set can be set: a key with a value, or a section of such keys."""
    known = {".".join(map(str, key.path)) for key in keys_of(HostEntry)}
    known |= {key.rpartition(".")[0] for key in known}
    assert {each.needed_key for each in RULES.values()} <= known | {"clock", "host"}


def _findings(path: Path) -> list[Finding]:
    """Return the findings of a case's node, and of those beside it, if nothing is named."""
    case: dict[str, Any] = case_files.load(path.read_text())
    change = case.get("found")
    if "among" in case:
        around = states.among(case["among"])
        return check(states.found(states.meshed(change)), NOTHING, around)
    nodes = {"n": states.found(change)}
    for name, other in case.get("others", {}).items():
        nodes[name] = states.found(other.get("found"))
    if "others" in case:
        return _among(nodes)
    beside = case.get("beside") or {}
    found = {name: states.found(each) for name, each in beside.get("found", {}).items()}
    around = Among(beside.get("name", ""), peers(beside.get("nodes", ())), found)
    return check(nodes["n"], NOTHING, around)


def _among(nodes: dict[str, NodeState]) -> list[Finding]:
    judged = {name: Judged(each, NOTHING, Among(name, (), nodes)) for name, each in nodes.items()}
    return judge(judged).findings["n"]


@pytest.fixture(scope="module")
def fired() -> dict[str, list[Finding]]:
    """What each case finds if the inventory names nothing but the address of the node."""
    return {f"{path.parent.name}/{path.stem}": _findings(path) for path in _CASES}


def test_a_rule_that_is_always_judged_needs_nothing(fired: dict[str, list[Finding]]) -> None:
    """Each has a finding in a case of its own, and no other rule has one."""
    own = {
        each.rule
        for name, findings in fired.items()
        for each in findings
        if each.rule == name.partition("/")[0]
    }
    found = {each.rule for findings in fired.values() for each in findings}
    assert {rule for rule in found if rule in RULES} <= ALWAYS
    assert own >= ALWAYS


def test_what_the_inventory_does_not_name_is_never_repaired(
    fired: dict[str, list[Finding]],
) -> None:
    """No finding is fixable; what a deploy could repair says which key lets it."""
    findings = [each for several in fired.values() for each in several]
    assert not [each for each in findings if each.fixable]
    held = {each.rule for each in findings if "and gpu-node deploy repairs it; or: " in each.fix}
    repaired = {rule.id for rule in RULES.values() if rule.always and rule.steps}
    # Those whose findings an inventory without keys makes no repair of in the first place.
    assert repaired - held <= {
        *("driver.not-installed", "network.ifname-wrong", "network.launcher-override"),
        *("nccl.duplicate-packages", "nccl.package-damaged", "nccl.package-mismatch"),
        *("shm.orphaned-trainer", "toolchain.package-differs"),
        # The fix of each names its key itself.
        *("limits.memlock", "limits.nofile", "limits.nproc", "shm.docker-default"),
        *("shm.remove-ipc", "shm.too-small", "toolchain.ninja"),
    }
    for each in findings:
        # env.cover-up has the fix of the fault that a variable hides.
        if "gpu-node deploy repairs it; or: " in each.fix and each.rule != "env.cover-up":
            assert each.fix.startswith(f"set {RULES[each.rule].needed_key} in the inventory, ")

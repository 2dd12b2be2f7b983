"""A converge of two healthy nodes beside a hostile one: the two end as without it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from paramiko import Channel, ECDSAKey

from gpu_node.facts.areas import RULE_ID
from gpu_node.facts.probe.frame import MARK
from gpu_node.lab import faults, network, nodes, roster
from tests.e2e.conftest import CONVERGED, write_inventory
from tests.e2e.on_lab import (
    BIN,
    DEPLOY,
    MANAGED,
    changed,
    content,
    drift,
    manifest,
    on,
)
from tests.hostile_nodes import (
    LIES,
    MOST_KIB,
    MOST_SECONDS,
    Honest,
    Reply,
    endless,
    garbage,
    lying,
    measured,
    reply,
)
from tests.onboarding.serving import Sshd, serving

pytestmark = pytest.mark.lab_slow
EVIL = "evil-01"
# What there is to repair on both nodes, in areas that each have a way of their own.
BROKEN = (
    *("cmake-half-unpacked", "ssh-authorized-keys-lost", "limits-file-gone"),
    *("bashrc-without-our-block", "fstab-line-gone", "nccl-wheel-overwritten"),
)
# What each run writes anew, under a name of its own.
KEPT = re.compile(r"^(var/backups|var/lib/gpu-node|run|tmp|dev)(/|$)")

PROOF = "Prove it"
# What names every node, on every node.
NAMING = (
    *("etc/hosts", "etc/ssh/ssh_config.d/10-gpu-node.conf", "etc/ssh/ssh_known_hosts"),
    "root/.ssh/authorized_keys",
)
NAMING_STEPS = (*NAMING, "SSH mesh | Authorize the nodes' keys")


def _refusing(channel: Channel, _: bytes) -> None:
    reply(channel, b"sudo: a password is required\n", 1)


def _facts_then(facts: Reply, later: Reply) -> Reply:
    """Answer probes in one way, and every operation in another."""

    def answer(channel: Channel, command: bytes) -> None:
        (facts if MARK.encode() in command else later)(channel, command)

    return answer


WORST: dict[str, Callable[[Honest], Reply]] = {
    "endless": lambda _: endless,
    "garbage": lambda _: garbage,
    "asks for passwords": lambda _: _refusing,
    "facts of an honest node, operations without end": lambda honest: _facts_then(honest, endless),
    "facts that lie, operations of garbage": lambda honest: _facts_then(
        lying(honest, LIES["old timestamps"]), garbage
    ),
}


@dataclass(frozen=True)
class Outcome:
    """The output of a converge, its changes on each healthy node, and its time and memory."""

    output: str
    files: dict[str, dict[str, object]]
    seconds: float
    memory: int


@dataclass(frozen=True)
class Site:
    """The inventories with and without the hostile node, and that node."""

    with_it: str
    without: str
    sshd: Sshd
    honest: Honest


@pytest.fixture(scope="module")
def site(converged_once: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The lab's two nodes, and a third on this machine that the others reach as well."""
    folder = tmp_path_factory.mktemp("hostile")
    gateway = str(network.GATEWAY.ip)
    with serving(folder / "home", gateway) as sshd:
        key = (folder / "key").with_suffix("")
        mine = ECDSAKey.generate()
        mine.write_private_key_file(str(key))
        sshd.authorized = [mine]
        for name in ("with", "without"):
            (folder / name).mkdir()
        with_it = write_inventory(folder / "with", {})
        file = Path(with_it).with_suffix(".yml")
        cluster = yaml.safe_load(file.read_text())
        pins = folder / "known_hosts"
        line = f"[{gateway}]:{sshd.port} {sshd.host_key}\n"
        pins.write_text(roster.KNOWN_HOSTS.read_text() + line)
        cluster["defaults"]["ssh"]["known_hosts"] = str(pins)
        ssh = {"port": sshd.port, "key": str(key)}
        cluster["hosts"][EVIL] = {"address": gateway, "group": "a100", "ssh": ssh}
        file.write_text(yaml.safe_dump(cluster))
        yield Site(with_it, write_inventory(folder / "without", {}), sshd, Honest())
    nodes.put_back(MANAGED, CONVERGED)


def _broken_and_converged(inventory: str) -> Outcome:
    nodes.put_back(MANAGED, CONVERGED)
    for name in BROKEN:
        faults.inject(faults.catalogue()[name])
    before = {node: manifest(node) for node in MANAGED}
    done, seconds, memory = measured(BIN / "pyinfra", "-y", inventory, DEPLOY)
    output = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    assert "Traceback" not in output, output
    files = {node: _written(node, before[node]) for node in MANAGED}
    return Outcome(output, files, seconds, memory)


def _written(node: str, before: dict[str, str]) -> dict[str, object]:
    """The files that changed on a node, by sum; those that name every node by their other lines."""
    after = manifest(node)
    paths = {path for path in changed(before, after) if not KEPT.match(path)}.difference(NAMING)
    files = sorted(path for path in paths if after.get(path, "d")[0] == "f")
    listed = "".join(f"/{path}\n" for path in files)
    sums = on(node, f"xargs -d '\\n' sha256sum <<'END'\n{listed}END\n").splitlines()
    found: dict[str, object] = dict(zip(files, sums, strict=True))
    return found | {path: _lines(node, path) for path in NAMING}


def _lines(node: str, path: str) -> list[bytes]:
    is_file = on(node, f"[ ! -f /{path} ] || [ -L /{path} ] || echo yes")
    text = content(node, f"/{path}") if is_file else b""
    # Of ssh's settings all of a block belongs to the host in its first line; `Match all` ends it.
    text = re.sub(
        rb"(?m)^Host .*\b%b\b.*\n(?:[ \t].*\n)*(?:Match all\n)?" % EVIL.encode(), b"", text
    )
    words = (str(network.GATEWAY.ip).encode(), EVIL.encode(), b"# >>> gpu-node", b"# <<< gpu-node")
    return [line for line in text.split(b"\n") if line and not any(each in line for each in words)]


@pytest.fixture(scope="module")
def without(site: Site) -> Outcome:
    """The converge of the two alone, which repairs both."""
    found = _broken_and_converged(site.without)
    assert set(_executed(found.output)) >= {"Shared memory | Write /etc/fstab", PROOF}
    assert "] Error" not in found.output
    return found


@pytest.mark.parametrize("worst", WORST)
def test_the_others_are_repaired_alike(site: Site, without: Outcome, worst: str) -> None:
    """The same operations and files, within time and memory limits; then the report is clean."""
    site.sshd.answer = WORST[worst](site.honest)
    found = _broken_and_converged(site.with_it)
    assert _executed(found.output) == _executed(without.output)
    assert found.files == without.files
    # What does not work between a healthy node and the hostile one is named, and nothing else.
    left = re.findall(rf"(?m)^ *\[({'|'.join(MANAGED)})\] ({RULE_ID}: .*)$", found.output)
    assert [line for line in left if EVIL not in line[1]] == []
    assert found.seconds < without.seconds + MOST_SECONDS
    assert found.memory < MOST_KIB
    hosts = drift(site.with_it).json["hosts"]
    found_later = [each for node in MANAGED for each in hosts[node]["findings"]]
    assert [each for each in found_later if EVIL not in str(each)] == []


def _executed(output: str) -> dict[str, list[str]]:
    """Return the operations on the healthy nodes, without those that name every node."""
    found: dict[str, list[str]] = {}
    for part in output.split("--> Starting operation: ")[1:]:
        name = part.split("\n", 1)[0].strip()
        ends = re.findall(r"(?m)^ *\[(\S+)\] (?:Success|No changes|Error)", part)
        hosts = sorted(each for each in ends if each != EVIL)
        if hosts and not name.endswith(NAMING_STEPS):
            found[name] = hosts
    return found

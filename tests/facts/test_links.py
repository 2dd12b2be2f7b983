"""What a real kernel says of interfaces, in a network namespace, and what rules find in it."""

from __future__ import annotations

import pytest
from pydantic_core import to_jsonable_python

from gpu_node.drift.engine.registry import RULES
from gpu_node.drift.engine.rule import At
from gpu_node.facts.network.state import PARSERS, sections
from gpu_node.facts.probe.base import taken
from gpu_node.facts.probe.protocol import read, render
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.lab.machine import as_root
from tests.drift import states
from tests.shells import as_lines

SECTIONS = [each for each in sections(ProbeRequest()) if each.name != "network.routes"]
# Two interfaces in one subnet, as CentOS 7 has them: the kernel sends over the first.
MADE = """set -e
mount -t sysfs sysfs /sys
for each in 1 2; do
  ip link add "eno$each" type veth peer name "port$each"
  ip link set "port$each" up
  ip address add "192.0.2.$((each + 9))/24" dev "eno$each"
  ip link set "eno$each" up
done
for each in all eno1 eno2; do echo 0 >"/proc/sys/net/ipv4/conf/$each/rp_filter"; done
"""


def found(*strict: str) -> list[str]:
    """Return what is found where a strict filter is set for some interfaces, or for all."""
    lines = [f"echo 1 >/proc/sys/net/ipv4/conf/{each}/rp_filter" for each in strict]
    script = "\n".join([MADE, *lines, render(SECTIONS)])
    done = as_root(["unshare", "--net", "--mount", "bash", "-c", script])
    answers = read(as_lines(done.stdout.encode()), SECTIONS)
    known = taken(answers, {each.name: PARSERS[each.name] for each in SECTIONS})
    assert not answers.unread, answers.unread
    node = states.state({"network": to_jsonable_python(known)})
    rule = RULES["network.rp-filter"]
    return [each.found for each in rule(At("network", node, states.wanted(), states.nodes()))]


@pytest.mark.parametrize("strict", [("eno2",), ("all",), ("eno1", "eno2")], ids=str)
def test_a_strict_filter(strict: tuple[str, ...]) -> None:
    assert found(*strict) == ["eno2 drops packets from 192.0.2.0/24, which is reached over eno1"]


@pytest.mark.parametrize("strict", [(), ("eno1",)], ids=str)
def test_a_loose_filter(strict: tuple[str, ...]) -> None:
    """One on the interface that the kernel sends over drops nothing."""
    assert found(*strict) == []

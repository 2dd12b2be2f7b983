"""A text of a rule is in its row, once: its function fills it, extends it or has another one."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

import pytest

from gpu_node.drift.engine.registry import RULES
from gpu_node.drift.engine.rule import At, Check, Fault, Rule
from tests.drift import states
from tests.drift.rule_cases import ALL, findings_of

# So many words of the row in their order are its text again.
SAME = 6
# Texts that a function writes again. None is added: `also` is for what is before the row's `why`,
# and `names` has what stands for the words in capitals of both texts.
AGAIN = {
    *("driver.gpu-differs fix", "driver.no-gpu fix", "driver.smi-fails cause"),
    *("env.stale-process fix", "host.memory-for-job fix", "host.package-manager fix"),
    *("job.path cause", "job.slots fix", "limits.differs cause", "limits.differs fix"),
    *("nccl.differs cause", "nccl.torch-gpu fix", "network.slow-link cause"),
    *("network.slow-link fix", "network.speed-differs fix", "shm.above-memory fix"),
    *("shm.differs cause", "ssh.name-taken fix", "ssh.name-unresolved cause", "ssh.no-login cause"),
    *("ssh.port-unset fix", "toolchain.cmake-old fix", "toolchain.compat-library cause"),
    *("toolchain.compiler cause", "toolchain.cuda-mismatch cause", "workspace.rsync-missing fix"),
}


@pytest.fixture(name="faults", scope="module")
def _faults() -> Iterator[Mapping[str, list[Fault]]]:
    """What each rule finds on the nodes of all cases."""
    found: dict[str, list[Fault]] = defaultdict(list)

    def spied(rule: Rule, own: Check) -> Check:
        def spy(at: At) -> Iterator[Fault]:
            for fault in own(at):
                found[rule.id].append(fault)
                yield fault

        return spy

    with pytest.MonkeyPatch.context() as patch:
        for rule in RULES.values():
            patch.setitem(vars(rule), "check", spied(rule, rule.check))
        for case in ALL:
            findings_of.__wrapped__(case)
        yield found


def runs(text: str) -> set[tuple[str, ...]]:
    """Return each run of so many words of a text."""
    words = re.findall(r"[\w.'/-]+", text.lower())
    return {tuple(words[at : at + SAME]) for at in range(len(words) - SAME + 1)}


def test_no_function_writes_the_text_of_its_row_again(faults: Mapping[str, list[Fault]]) -> None:
    """A change of the row would not be seen in the report."""
    again = set()
    for name, found in faults.items():
        texts = {"cause": RULES[name].why, "fix": RULES[name].manual}
        for kind, row in texts.items():
            if any(runs(getattr(fault, kind)) & runs(row) for fault in found):
                again.add(f"{name} {kind}")
    assert again == AGAIN


def test_what_fills_or_extends_a_text_is_in_the_finding(faults: Mapping[str, list[Fault]]) -> None:
    """A name stands for a word of the row, and nothing is before a text that replaces the row's."""
    assert sum(bool(each.names) for found in faults.values() for each in found) > 30
    for name, found in faults.items():
        words = re.findall("[A-Z_]+", f"{RULES[name].why} {RULES[name].manual}")
        assert {each for fault in found for each in fault.names} <= {*words}, name
        assert not [fault for fault in found if fault.also and fault.cause], name


def test_a_row_is_filled_and_extended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words in capitals that a fault does not name, and parts of such words, stay."""
    rule = RULES["toolchain.cmake-shadowed"]
    monkeypatch.setitem(vars(rule), "manual", "set MY_FILE, or remove FILE: FILE is before PATH")
    monkeypatch.setitem(vars(rule), "why", "FILE is first")
    names = {"FILE": "/bin/FILE"}
    fault = Fault("cmake", "old", "new", also="builds fail", names=names)
    monkeypatch.setitem(vars(rule), "check", lambda at: iter([fault]))
    (finding,) = rule.findings(states.state(), states.wanted(), states.nodes())
    assert finding.cause == "builds fail; /bin/FILE is first"
    filled = "set MY_FILE, or remove /bin/FILE: /bin/FILE is before PATH"
    assert [way.text for way in finding.ways if way.who != "deploy"] == [filled]

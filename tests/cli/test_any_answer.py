"""Whatever one node answers, another one's state and findings are as if it had answered well.

Over SSH, by ClusterShell, by Slurm and from files. Only rules between nodes compare the two: their
findings are left out, as are roots on another node and what is about clocks, which go on. So is
the one clash that a node can cause: its file names the machine of another node's (`--answers`).
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from paramiko import Channel, ECDSAKey

from gpu_node.cli.asking import ask, ask_via, offline_hosts, read_answers
from gpu_node.drift.engine.registry import RULES
from gpu_node.drift.report.model import report_of
from gpu_node.drift.report.seen import Seen
from gpu_node.facts.ask.offline import scripts
from tests.drift import hostile
from tests.examples import examples
from tests.hostile_nodes import LIES, reply
from tests.onboarding.serving import at_home, serving

GOOD, EVIL = "a-01", tuple(f"b-0{number}" for number in range(1, 8))
NAMES = (GOOD, *EVIL)
CLUSTER = """cluster: c
defaults:
  ssh: {user: root, key: key, known_hosts: known_hosts}
  shm: {size: 8G}
  limits: {nofile: 1048576}
  env: {NCCL_DEBUG: WARN}
  nccl: {environments: [%s]}
hosts:
"""
# ssh and srun: they print the file of a node, with the number that they are asked for.
CARRIER = r"""#!/bin/sh
script=$(cat) LC_ALL=C; export LC_ALL
node=$(printf '%s\n' "$script" | sed -n 's/^node=${1:-\([a-z0-9-]*\)}$/\1/p')
for word; do case $word in --nodelist=*) node=${word#*=} ;; esac; done
number=$(printf '%s\n' "$script" | sed -n "s/.*'@@gpu-node' '\([0-9a-f]\{16\}\)'.*/\1/p")
sed "s/NUMBER/$number/" "FOLDER/answers/$node"
"""
SINFO = "#!/bin/sh\n" + "".join(f"echo '{name}|idle|(null)|none'\n" for name in NAMES)


def head(name: str, machine: str) -> str:
    """Return the stamp of an answer; what carries it fills the number in."""
    return f"\n@@gpu-node script NUMBER {name} {time.time():.0f} {machine} {machine}-boot\n"


BODY = "\n".join(hostile.output({}))


def honest(name: str) -> str:
    """Return what a node answers that has done nothing to others."""
    return head(name, name) + BODY


@dataclass
class World:
    """An inventory whose nodes answer by whatever is wanted."""

    folder: Path
    digests: dict[str, str] = field(default_factory=dict)

    @property
    def file(self) -> str:
        return str(self.folder / "site.yml")

    def over_ssh(self) -> dict[str, Seen]:
        return ask(self.file)

    def by_clustershell(self) -> dict[str, Seen]:
        return ask_via("clustershell", self.file, ())

    def by_slurm(self) -> dict[str, Seen]:
        return ask_via("slurm", self.file, ())

    def from_files(self) -> dict[str, Seen]:
        for name in NAMES:
            text = (self.folder / "answers" / name).read_text()
            file = self.folder / "answers" / f"{name}.txt"
            file.write_text(text.replace("NUMBER", self.digests[name]))
        return read_answers(self.file, (), str(self.folder / "answers"))

    def of_the_good_one(self, way: str, others: Mapping[str, str]) -> str:
        """Return the state and the own findings of the good node, with these answers of others."""
        for name in NAMES:
            (self.folder / "answers" / name).write_text(others.get(name) or honest(name))
        seen = WAYS[way](self)
        state = seen[GOOD].state
        assert state is not None, seen[GOOD].error
        host = report_of(self.file, seen).hosts[GOOD]
        found = state.model_dump(mode="json")
        del found["clock"]
        found["unreadable"] = [each for each in found["unreadable"] if not _is_a_clash(each)]
        findings = [_own(each.model_dump(mode="json")) for each in host.findings]
        return json.dumps([host.error, found, [each for each in findings if each]], sort_keys=True)


def _is_a_clash(unread: Mapping[str, Any]) -> bool:
    return bool(unread["section"] == "host.machine")


def _own(finding: dict[str, Any]) -> dict[str, Any] | None:
    """Return a finding that no other node has a part in; None for another one."""
    rule = RULES.get(finding["rule"])
    if (rule and rule.between) or finding["rule"].startswith("clock."):
        return None
    if finding["subject"] == "host.machine":
        return None
    is_own = (finding["root"] or {}).get("node") in (None, GOOD)
    return {**finding, "root": finding["root"] if is_own else None}


WAYS = {
    "ssh": World.over_ssh,
    "clustershell": World.by_clustershell,
    "slurm": World.by_slurm,
    "answers": World.from_files,
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Nodes with a server each; ssh and srun are stand-ins that print what a node answers."""
    made = World(tmp_path_factory.mktemp("any"))
    mine = ECDSAKey.generate()
    for each in ("answers", "bin", "servers"):
        (made.folder / each).mkdir()
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        at_home(patch, made.folder)
        patch.setattr("gpu_node.cli.loading.cooperate", lambda: None)
        patch.setenv("CLUSTERSHELL_CFGDIR", str(made.folder))
        patch.setenv("PATH", f"{made.folder / 'bin'}:{os.environ['PATH']}")
        for name, text in {"ssh": CARRIER, "srun": CARRIER, "sinfo": SINFO}.items():
            (made.folder / "bin" / name).write_text(text.replace("FOLDER", str(made.folder)))
            (made.folder / "bin" / name).chmod(0o755)
        lines, pins = [CLUSTER % hostile.ENVIRONMENT], []
        for number, name in enumerate(NAMES, 1):
            address = f"127.0.0.{number}"
            sshd = stack.enter_context(serving(made.folder / "servers" / name, address))
            sshd.authorized, sshd.answer = [mine], _printing(made.folder / "answers" / name)
            lines.append(f"  {name}: {{address: {address}, ssh: {{port: {sshd.port}}}}}\n")
            pins.append(f"[{address}]:{sshd.port} {sshd.host_key}\n")
        mine.write_private_key_file(str(made.folder / "key"))
        (made.folder / "known_hosts").write_text("".join(pins))
        (made.folder / "site.yml").write_text("".join(lines))
        for script in scripts(offline_hosts(made.file, ()), version("gpu-node")):
            made.digests |= dict.fromkeys(script.nodes, script.digest)
        yield made


def _printing(file: Path) -> Callable[[Channel, bytes], None]:
    def answer(channel: Channel, command: bytes) -> None:
        with channel.makefile("rb") as given:
            given.read()
        reply(channel, file.read_bytes())

    return answer


@pytest.fixture(scope="module")
def well(world: World) -> dict[str, str]:
    """What is found of the good node where all others answer well, by each way."""
    found = {way: world.of_the_good_one(way, {}) for way in WAYS}
    assert all('"rule": "shm.' in each for each in found.values())
    return found


# Answers that look at the good node: its name, its machine, or its whole answer.
AT_IT: dict[str, Callable[[str], str]] = {
    "its machine": lambda name: head(name, GOOD) + BODY,
    "its machine, cut": lambda name: head(name, GOOD) + BODY[: len(BODY) // 2],
    "its name": lambda _: head(GOOD, GOOD) + BODY,
    "both names": lambda name: head(name, name) + BODY + head(GOOD, GOOD) + BODY,
    "its job": lambda name: honest(name) + "\n@@gpu-node job 1\n",
    "nothing": lambda _: "\n",
    "no end": lambda name: honest(name).replace("@@gpu-node done", ""),
}


def _lie(change: Callable[[bytes], bytes]) -> Callable[[str], str]:
    """Return an answer in which each section is changed."""
    honest = {name: texts[0] for name, texts in hostile.answers().items()}
    lies = {name: change(text.encode()).decode("utf-8", "replace") for name, text in honest.items()}
    return lambda name: head(name, name) + "\n".join(hostile.output(lies))


AT_ALL = {
    "many lines": lambda name: head(name, name) + "\n" * 600_000,
    **{name: _lie(change) for name, change in LIES.items() if "as many" not in name},
}


@pytest.mark.parametrize(
    "answers", [AT_IT, pytest.param(AT_ALL, marks=pytest.mark.slow)], ids=["at it", "at all"]
)
@pytest.mark.parametrize("way", WAYS)
def test_answers_that_are_made_to_hurt(
    world: World, well: dict[str, str], way: str, answers: dict[str, Callable[[str], str]]
) -> None:
    """Of other nodes, at the same time."""
    others = {name: make(name) for name, make in zip(EVIL, answers.values(), strict=True)}
    assert world.of_the_good_one(way, others) == well[way]


def test_a_clash_is_a_finding_of_both(world: World) -> None:
    """It is the only word of a node that a file of another one can cause."""
    (world.folder / "answers" / EVIL[0]).write_text(AT_IT["its machine"](EVIL[0]))
    for name in (GOOD, *EVIL[1:]):
        (world.folder / "answers" / name).write_text(honest(name))
    hosts = report_of(world.file, world.from_files()).hosts
    clashes = {
        name: [each.found for each in host.findings if each.subject == "host.machine"]
        for name, host in hosts.items()
    }
    assert {name for name, each in clashes.items() if each} == {GOOD, EVIL[0]}
    assert re.search(rf"the answer of {EVIL[0]} names the same machine", clashes[GOOD][0])


QUIET = settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.parametrize("way", WAYS)
@given(changes=some.lists(hostile.changes(), min_size=len(EVIL), max_size=len(EVIL)))
@QUIET
def test_any_answer(
    world: World, well: dict[str, str], way: str, changes: list[dict[str, str]]
) -> None:
    """Some sections of each other node say something else."""
    others = {
        name: head(name, name) + "\n".join(hostile.output(change))
        for name, change in zip(EVIL, changes, strict=True)
    }
    assert world.of_the_good_one(way, others) == well[way]

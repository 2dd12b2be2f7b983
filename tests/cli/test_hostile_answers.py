"""Whatever nodes answer, each is named with its problem, and the others are as if all were well.

Over SSH, by ClusterShell, by Slurm and from files. Two good nodes are asked beside hostile ones, at
the same time. Only rules between nodes compare them: findings of those are left out, as are roots
on another node, and what is about clocks, which go on.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from paramiko import Channel, ECDSAKey
from rich.console import Console

from gpu_node.cli.asking import offline_hosts
from gpu_node.cli.main import main
from gpu_node.drift.engine.registry import RULES
from gpu_node.drift.report.formats import Page, parts
from gpu_node.drift.report.json import WrittenReport
from gpu_node.drift.report.view import View
from gpu_node.facts.ask.offline import scripts
from gpu_node.facts.probe.frame import MARK
from gpu_node.inventories.escape import visible
from tests.cli.conftest import INVENTORY
from tests.commands import BIN, run
from tests.drift import hostile
from tests.hostile_answers import (
    BODY,
    CLUSTERSHELL,
    ENDLESS,
    FILES,
    FRAMES,
    FULL,
    GOOD,
    LIES,
    SECTIONS,
    WAYS,
    Hostile,
    honest,
    stamp,
)
from tests.hostile_nodes import measured, reply
from tests.onboarding.serving import Sshd, at_home, serving

GROUPS: dict[str, Mapping[str, Hostile]] = {
    "good": {name: Hostile(honest) for name in GOOD},
    "frames": {f"x-{name}": row for name, row in (FRAMES | SECTIONS | FULL).items()},
    "worst": {f"x-{name}": row for name, row in (LIES | ENDLESS).items()},
}
ROWS = {name: row for rows in GROUPS.values() for name, row in rows.items()}
WELL = {name: Hostile(honest) for name in ROWS}
CLUSTER = f"""cluster: c
defaults:
  ssh: {{user: root, key: key, known_hosts: known_hosts}}
  shm: {{size: 8G}}
  limits: {{nofile: 1048576}}
  env: {{NCCL_DEBUG: WARN}}
  nccl: {{environments: [{hostile.ENVIRONMENT}]}}
groups: {{{", ".join(f"{name}: {{}}" for name in GROUPS)}}}
hosts:
"""
# ssh and srun: they print the file of a node, with the number that they are asked for.
CARRIER = r"""#!/bin/sh
script=$(cat) LC_ALL=C; export LC_ALL
node=$(printf '%s\n' "$script" | sed -n 's/^node=${1:-\([a-z0-9-]*\)}$/\1/p')
for word; do case $word in --nodelist=*) node=${word#*=} ;; esac; done
number=$(printf '%s\n' "$script" | sed -n "s/.*'@@gpu-node' '\([0-9a-f]\{16\}\)'.*/\1/p")
cd "FOLDER/sent"
sed "s/NUMBER/$number/; 9q" "$node"
tail -n +10 "$node"
case $(cat "$node.then") in
  "goes on") while cat "$node"; do :; done ;;
  "is silent") exec sleep 100 ;;
  *) exit "$(cat "$node.then")" ;;
esac
"""
SINFO = "#!/bin/sh\n" + "".join(f"echo '{name}|idle|(null)|none'\n" for name in ROWS)
MOST_BYTES = 17 << 20
# Measured: 1.8 times as much of a processor, and 2.4 times as much memory.
MOST_SECONDS, MOST_MEMORY = 4, 3
# pyinfra's own styles.
STYLE = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class Site:
    """An inventory whose nodes answer by a table."""

    folder: Path
    sshds: dict[str, Sshd]
    digests: dict[str, str]

    @property
    def file(self) -> Path:
        return self.folder / "site.yml"

    def words(self, way: str, group: str) -> list[str]:
        """Return the words of a report about the good nodes and a group, by one way."""
        limit = [f"--limit={each}" for each in ("good", group)]
        by = [f"--answers={self.folder}/answers"] if way == FILES else [f"--via={way}"]
        return ["drift", str(self.file), "--format=json", "--no-history", *limit, *by]

    def answer(self, rows: Mapping[str, Hostile], group: str) -> None:
        """Let each node of a group, and the good ones, answer by its row."""
        for name in (*GOOD, *GROUPS[group]):
            row = rows[name]
            given = row.sent(name)
            data = given if isinstance(given, bytes) else given.encode("utf-8", "surrogateescape")
            (self.folder / "sent" / name).write_bytes(data)
            then = str(row.code) if row.then == "ends" else row.then
            (self.folder / "sent" / f"{name}.then").write_text(then)
            file = self.folder / "answers" / f"{name}.txt"
            file.unlink(missing_ok=True)
            if row.then != "is silent":
                times = MOST_BYTES // len(data) + 1 if row.then == "goes on" else 1
                file.write_bytes(data.replace(b"NUMBER", self.digests[name].encode()) * times)


def _sending(
    folder: Path, name: str, is_asked: Callable[[bytes], bool]
) -> Callable[[Channel, bytes], None]:
    """Return what answers for a node over SSH; what it is not asked fails."""

    def answer(channel: Channel, command: bytes) -> None:
        with channel.makefile("rb") as given:
            given.read()
        if not is_asked(command):
            return reply(channel, b"", 1)
        data, then = (folder / name).read_bytes(), (folder / f"{name}.then").read_text()
        if then.isdigit():
            return reply(channel, data, int(then))
        channel.sendall(data)
        while then == "goes on":
            channel.sendall(data)
        channel.recv(1)  # until the connection ends

    return answer


def _is_probe(command: bytes) -> bool:
    return MARK.encode() in command


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Nodes with a server each; ssh and srun are stand-ins that print what a node sends."""
    folder, mine = tmp_path_factory.mktemp("hostile"), ECDSAKey.generate()
    for each in ("answers", "bin", "sent", "servers"):
        (folder / each).mkdir()
    made = Site(folder, {}, {})
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        at_home(patch, folder)
        patch.setattr("gpu_node.cli.loading.cooperate", lambda: None)
        for name in ("getpass.getpass", "pyinfra.connectors.util.getpass"):
            patch.setattr(name, lambda *_: pytest.fail("a password was asked for"))
        patch.setenv("CLUSTERSHELL_CFGDIR", str(folder))
        patch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
        for name, text in {"ssh": CARRIER, "srun": CARRIER, "sinfo": SINFO}.items():
            (folder / "bin" / name).write_text(text.replace("FOLDER", str(folder)))
            (folder / "bin" / name).chmod(0o755)
        lines, pins = [CLUSTER], []
        for number, name in enumerate(ROWS, 1):
            address = f"127.0.0.{number}"
            sshd = stack.enter_context(serving(folder / "servers" / name, address))
            sshd.authorized, sshd.answer = [mine], _sending(folder / "sent", name, _is_probe)
            made.sshds[name] = sshd
            (group,) = (group for group, rows in GROUPS.items() if name in rows)
            ssh = f"{{port: {sshd.port}}}"
            lines.append(f"  {name}: {{address: {address}, group: {group}, ssh: {ssh}}}\n")
            pins.append(f"[{address}]:{sshd.port} {sshd.host_key}\n")
        mine.write_private_key_file(str(folder / "key"))
        (folder / "known_hosts").write_text("".join(pins))
        made.file.write_text("".join(lines))
        made.file.with_suffix(".py").write_text(INVENTORY)
        for script in scripts(offline_hosts(str(made.file), ()), version("gpu-node")):
            made.digests |= dict.fromkeys(script.nodes, script.digest)
        yield made


def reported(site: Site, way: str, group: str, rows: Mapping[str, Hostile]) -> tuple[Any, str]:
    """Return the exit code of a report, and what it prints."""
    site.answer(rows, group)
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["gpu-node", *site.words(way, group)])
        with pytest.raises(SystemExit) as ended:
            main()
    assert err.getvalue() == ""
    return ended.value.code, out.getvalue()


def of_good(hosts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts and the own findings of the good nodes."""
    return {name: _own(hosts[name]) for name in GOOD}


def _own(host: dict[str, Any]) -> dict[str, Any]:
    findings = [
        {**each, "root": each["root"] if (each["root"] or {}).get("node") in GOOD else None}
        for each in host["findings"]
        if not ((rule := RULES.get(each["rule"])) and rule.has_peers)
        and not each["rule"].startswith("clock.")
    ]
    facts = {area: facts for area, facts in host["facts"].items() if area != "clock"}
    return {"facts": facts, "findings": findings, "error": host["error"]}


@pytest.fixture(scope="module")
def well(site: Site) -> Callable[[str], dict[str, Any]]:
    """What is reported of the good nodes where nothing else is asked."""

    @cache
    def by(way: str) -> dict[str, Any]:
        code, out = reported(site, way, "good", WELL)
        assert code == 2
        return of_good(json.loads(out)["hosts"])

    return by


def unread(host: Mapping[str, Any]) -> set[str]:
    """Return the sections of a node that are unreadable."""
    return {each["subject"] for each in host["findings"] if each["rule"].endswith(".unreadable")}


def shown(way: str, group: str, out: str, good: Mapping[str, Any]) -> dict[str, Any]:
    """Return the hosts of a report, in which the good nodes are as before and each row is named.

    It has no character that steers a terminal, as JSON and as a table.
    """
    hosts: dict[str, Any] = json.loads(out)["hosts"]
    assert of_good(hosts) == good
    assert {host.get("slurm_job") for host in hosts.values()} == {None}
    console = Console(file=io.StringIO(), width=400)
    table = "".join(parts("table", View(WrittenReport.model_validate_json(out)), Page(console)))
    assert [line for line in (out + table).split("\n") if visible(line, 1 << 20) != line] == []
    wrong = {}
    for name, row in GROUPS[group].items():
        host, shows = hosts[name], row.by.get(way, row.shows)
        texts = [host["error"] or "", *(each["found"] for each in host["findings"])]
        if not any(shows in each for each in texts) or (not shows and host["error"]):
            wrong[name] = [shows, host["error"], *(unread(host))]
    assert wrong == {}
    return hosts


# ClusterShell runs ssh itself, as Slurm does srun: both are programs that print what nodes send.
@pytest.mark.parametrize(
    "way",
    [pytest.param(each, marks=[pytest.mark.slow] * (each == CLUSTERSHELL)) for each in WAYS],
)
def test_each_is_named_and_the_others_are_as_before(
    site: Site, well: Callable[[str], dict[str, Any]], way: str
) -> None:
    """And of what one section is, that section alone."""
    code, out = reported(site, way, "frames", ROWS)
    hosts = shown(way, "frames", out, well(way))
    assert code == 1
    left = {name: unread(hosts[f"x-{name}"]) - {"shm.size"} for name in SECTIONS}
    assert left == dict.fromkeys(SECTIONS, unread(hosts[GOOD[0]]))


def test_a_clash_is_a_finding_of_both(site: Site, well: Callable[[str], dict[str, Any]]) -> None:
    """It is the only word of a node that a file of another one can cause."""
    both, machine = (GOOD[0], "x-controls"), "m\x1b]0;owned\x07"
    rows = {**WELL, **{name: Hostile(lambda name: stamp(name, machine) + BODY) for name in both}}
    code, out = reported(site, FILES, "worst", rows)
    hosts = json.loads(out)["hosts"]
    clashes = {name: host for name, host in hosts.items() if "host.machine" in unread(host)}
    assert (code, {*clashes}) == (1, {*both})
    (clash,) = (each for each in clashes[GOOD[0]]["findings"] if each["subject"] == "host.machine")
    assert f"the answer of {both[1]} names the same machine" in clash["found"]
    clashes[GOOD[0]]["findings"].remove(clash)
    assert of_good(hosts) == well(FILES)
    assert all(visible(line, 1 << 20) == line for line in out.split("\n"))


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_the_worst(site: Site, way: str) -> None:
    """It costs as many nodes that answer well several times the processor, and little memory."""
    outs, costs = [], []
    for rows in (WELL, ROWS):
        site.answer(rows, "worst")
        done, *cost = measured(BIN / "gpu-node", *site.words(way, "worst"))
        assert done.returncode in (1, 2) and done.stderr.count("\n") == 1, done.stderr
        outs.append(done.stdout)
        costs.append(cost)
    shown(way, "worst", outs[1], of_good(json.loads(outs[0])["hosts"]))
    (seconds, memory), (most_seconds, most_memory) = costs
    assert most_seconds < MOST_SECONDS * seconds
    assert most_memory < MOST_MEMORY * memory


def planned(site: Site, group: str) -> list[str]:
    """Return what a dry deploy prints of the good nodes."""
    site.answer(ROWS, group)
    limit = [f"--limit={each}" for each in dict.fromkeys(("good", group))]
    done = run("pyinfra", "--dry", str(site.file.with_suffix(".py")), "deploy/gpu_node.py", *limit)
    text = STYLE.sub("", done.out + done.err)
    # A change is printed with the number and the names of its nodes, of which many are cut off.
    text = re.sub(r" +\d+ \((.*)\) *-", lambda found: f": {found[1]}", text)
    text = re.sub(r"(?m)(, )?x-[a-z0-9-]+|\.\.\. *$", "", text)
    lines = [line.strip() for line in text.splitlines()]
    return sorted(line for line in lines if GOOD[0] in line or GOOD[1] in line)


@pytest.mark.slow
def test_a_deploy_beside_them(site: Site) -> None:
    """A dry run prints the same of the good nodes."""
    alone = planned(site, "good")
    assert planned(site, "worst") == alone != []


DEPLOY = """from pyinfra.operations import server
server.shell(name="Work", commands=["echo done"])
"""


@pytest.mark.slow
def test_operations_on_them(site: Site) -> None:
    """Whatever an operation prints on one node, it is done on the others."""
    rows = {**ROWS, "x-silent": Hostile(lambda _: "", code=1)}  # it would have hours
    site.answer(rows, "worst")
    for name in (*GOOD, *GROUPS["worst"]):
        sent = _sending(site.folder / "sent", name, lambda _: True)
        site.sshds[name].answer = None if name in GOOD else sent
    (site.folder / "deploy.py").write_text(DEPLOY)
    words = [site.file.with_suffix(".py"), site.folder / "deploy.py"]
    done = run("pyinfra", "-y", *map(str, words), "--limit=good", "--limit=worst", "-v")
    text = STYLE.sub("", done.out + done.err)
    ends = dict(re.findall(r"\[(\S+)\] +(Success|Error)", text))
    wanted = {
        name: "Error" for name in ("x-endless", "x-endless-lines", "x-many-lines", "x-silent")
    }
    assert ends == dict.fromkeys((*GOOD, *GROUPS["worst"]), "Success") | wanted
    assert "sent more than 16 MiB" in text
    assert "Traceback" not in text
    assert [line for line in text.split("\n") if visible(line, 1 << 20) != line] == []

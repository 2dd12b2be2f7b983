"""Servers as others have them, by public outputs: the probe reads their files, rules judge them.

Each file of servers/ says of each part where it is from: recorded, with its address, or described.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyinfra.api import StringCommand

from gpu_node.drift.engine.check import check
from gpu_node.drift.engine.nodes import Nodes
from gpu_node.facts.node import AREA_FACTS, SECTIONS
from gpu_node.facts.probe.peers import peers
from gpu_node.facts.probe.protocol import Reading, Readings, read, render
from tests.case_files import merged
from tests.drift import states
from tests.node_scripts import run_apart
from tests.shells import as_lines

SERVERS = sorted((Path(__file__).parent / "servers").glob("*.yml"))
# What these files decide: /sys, settings of /proc/sys, and what nvidia-smi prints.
ASKED = [
    each
    for each in SECTIONS
    if each.name
    in {
        *("driver.loaded", "driver.pci", "driver.smi", "fabric.switches", "fabric.nvlink"),
        *("host.governor", "host.numa-balancing", "host.overcommit", "host.zone-reclaim"),
        "network.links",
    }
]
# So many nodes are like it.
ALIKE = 25
SMI = """#!/bin/sh
case $1 in
  (-q) file=smi ;;
  (nvlink) file=nvlink ;;
esac
cat "FOLDER/$file"
"""


def version(server: dict[str, Any]) -> str:
    """The driver's version, by nvidia-smi where that was recorded."""
    words = server.get("smi", "").partition("Driver Version")[2].split()
    return words[1] if words else "535.154.05"


def files(server: dict[str, Any]) -> dict[str, str]:
    """Return the files of a server by their paths."""
    given, driver = server["gpu"], version(server)
    kind = "Open Kernel Module" if "open" in server["modules"] else "Kernel Module"
    made = {
        "/sys/module/nvidia/version": driver,
        "/proc/driver/nvidia/version": f"NVRM version: NVIDIA UNIX x86_64 {kind}  {driver}  Wed",
    }
    made |= {f"/sys/module/{name}/initstate": "live" for name in server["modules"]}
    interface = {"flags": "0x1003", "operstate": "up", "mtu": "9000", "speed": "25000"}
    made |= {f"/sys/class/net/eno1/{name}": text for name, text in interface.items()}
    width, most, above = given["lanes"].split()
    for slot in given["slots"]:
        card = {"vendor": "0x10de", "class": "0x030200", "device": given["id"]}
        card |= {"current_link_width": width, "max_link_width": most}
        made |= {f"/sys/port/{slot}/{name}": text for name, text in card.items()}
        made[f"/proc/driver/nvidia/gpus/{slot}/information"] = "Model: x"
    made["/sys/port/max_link_width"] = above
    for at, device in enumerate(server["switches"]):
        bridge = {"vendor": "0x10de", "class": "0x068000", "device": device}
        made |= {f"/sys/bus/pci/devices/c{at}/{name}": text for name, text in bridge.items()}
    for name, (state, layer, *gids) in server["ports"].items():
        port = f"/sys/class/infiniband/{name}/ports/1"
        made |= {f"{port}/state": state, f"{port}/link_layer": layer}
        made |= {f"{port}/gids/{each}": f"fe80::{each}a" for each in " ".join(gids).split()}
    return {**made, **server["files"]}


def answered(server: dict[str, Any], folder: Path, programs: Path, shell: str) -> dict[str, Any]:
    """Return what the probe reads there, by area."""
    for path, text in files(server).items():
        file = folder / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    devices = folder / "sys/bus/pci/devices"
    devices.mkdir(parents=True, exist_ok=True)
    for slot in server["gpu"]["slots"]:
        (devices / slot).symlink_to(f"../../../port/{slot}")
    programs.mkdir()
    manager = f"#!/bin/sh\necho 'Fabric Manager version is : {version(server)}'\n"
    stand_ins = {"nvidia-smi": SMI.replace("FOLDER", str(folder)), "nv-fabricmanager": manager}
    for name in ("smi", "nvlink"):
        (folder / name).write_text(server.get(name, ""))
    for name, text in stand_ins.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    binds = [("sys", "/sys"), ("proc/driver", "/proc/driver")]
    binds += [(path[1:], path) for path in server["files"] if path.startswith("/proc/sys/")]
    before = [f"[ ! -e {to} ] || mount --bind {folder}/{name} {to}" for name, to in binds]
    if server["switches"]:
        before.append("cp /bin/sleep /var/tmp/nv-fabricmanager; /var/tmp/nv-fabricmanager 60 &")
    done = run_apart(StringCommand(render(ASKED)), shell, "\n".join(before))
    answers = read(as_lines(done.out.encode()), ASKED)
    assert not answers.unread, answers.unread
    known: dict[str, Any] = {}
    for area in dict.fromkeys(each.name.split(".")[0] for each in ASKED):
        fact = AREA_FACTS[area]
        others = {each.name: Reading(0, "", "not asked") for each in fact.sections}
        state = fact.parse(Readings({**others, **answers.sections})).model_dump(mode="json")
        known[area] = {name: value for name, value in state.items() if value is not None}
    return known


def judged(server: dict[str, Any], known: dict[str, Any]) -> list[list[str]]:
    """Return the rules with a finding, of each of as many nodes as there are alike."""
    base = json.loads(json.dumps(states.BASE["found"]).replace("535.154.05", version(server)))
    known["driver"]["cuda_init"] = base["driver"]["cuda_init"]
    if "smi" not in server:
        gpus = [{"name": server["gpu"]["name"]} for _ in server["gpu"]["slots"]]
        known["driver"]["smi"] = {"code": 0, "output": "", "gpus": gpus}
    settings = [
        {"path": "~/.bashrc", "line": 9, "name": name, "value": value}
        for name, value in server.get("env", {}).items()
    ]
    whole: Any = merged(merged(base, known), {"env": {"settings": settings}})
    names = [f"n{each:02}" for each in range(1, ALIKE + 1)]
    changes: dict[str, Any] = {
        name: merged(whole, {"host": {"name": {"name": name}}}) for name in names
    }
    everywhere = {name: states.state(change) for name, change in changes.items()}
    around = peers([{"name": name, "address": "192.0.2.10", "gpus": 2} for name in names])
    wanted = states.wanted(
        {
            **{"gpu_model": server["gpu"]["model"], "gpu_count": len(server["gpu"]["slots"])},
            "driver_version": version(server),
        }
    )
    return [
        [each.rule for each in check(state, wanted, Nodes(name, around, everywhere))]
        for name, state in everywhere.items()
    ]


@pytest.mark.parametrize("path", SERVERS, ids=lambda path: path.stem)
def test_a_server(path: Path, shell: str, tmp_path: Path, programs: Path) -> None:
    """A healthy one has no finding, alone and among others like it; another one what it says."""
    server = yaml.safe_load(path.read_text())
    known = answered(server, tmp_path, programs, shell)
    found = judged(server, known)
    assert found == [server["findings"]] * ALIKE


@pytest.mark.parametrize("path", SERVERS, ids=lambda path: path.stem)
def test_a_server_says_where_it_is_from(path: Path) -> None:
    begun = [line for line in path.read_text().split("\n") if line.startswith("# ")]
    assert begun[0].startswith(("# Recorded: ", "# Described: "))
    assert "https://" in "".join(begun) or not any(line.startswith("# Recorded") for line in begun)

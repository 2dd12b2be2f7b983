"""A report that tries ports between its nodes, beside the same one that does not.

    python -m bench.ports [NODES...]

The nodes are addresses of loopback in a network of its own. Their answers are stored; the programs
that try ports run. Exit 1 if the best round takes more than is allowed.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace

from bench.contenders.ours import JUDGED, NotReal, judged
from bench.measure.rounds import interleaved
from bench.measure.run import Command
from bench.nodes import answers, probed
from bench.nodes.cluster import nodes, write_site
from bench.nodes.package import find
from bench.nodes.root import as_root
from bench.nodes.sshd import serving
from bench.places import BIN, HERE

# The most times the seconds of the report without them, by nodes.
LIMITS = {2: 1.25, 16: 1.5, 50: 1.5}
ROUNDS = 3
_APART = 'ip link set lo up && ip address add 10.77.0.1/16 dev lo && exec "$@"'


def ratio(number: int, rounds: int = ROUNDS) -> float:
    """Return the least times the seconds that a report with ports takes. Raises Failed, NotReal."""
    folder = HERE / "ports"
    folder.mkdir(parents=True, exist_ok=True)
    hosts = [replace(node, address=node.second) for node in nodes(number)]
    with serving(folder / "sshd", hosts, folder / "answers") as login:
        ssh = {"user": login.user, "key": str(login.key), "port": login.port}
        wanted = {
            "ssh": {**ssh, "known_hosts": str(login.known_hosts)},
            "gpu": {"model": "V100", "count": 2},
        }
        sites = {
            name: write_site(folder / name, hosts, {**wanted, "checks": {"ports": is_tried}})
            for name, is_tried in (("with", True), ("without", False))
        }
        script = probed.script(sites["with"], folder / "probe")
        answers.write(folder / "answers", script, hosts, folder / "home")
        for name, inventory in sites.items():
            untried = judged(inventory, number).get("ports.untried", 0)
            ran = [*(folder / "answers").glob("*.ports")]
            if (untried, len(ran)) != (0, number if name == "with" else 0):
                raise NotReal(f"{name}: {len(ran)} nodes tried ports, {untried} could not")
            for each in ran:
                each.unlink()
        words = [str(BIN / "gpu-node"), "drift", "site.py"]
        commands = {name: Command(words, each.parent, JUDGED) for name, each in sites.items()}
        runs = interleaved(commands, dict.fromkeys(commands, rounds), folder / "run")
    pairs = zip(runs["with"], runs["without"], strict=True)
    return min(tried.wall / not_tried.wall for tried, not_tried in pairs)


def main(numbers: Iterable[int]) -> int:
    """Measure, print and judge each."""
    is_slow = False
    for number in numbers:
        found = ratio(number)
        print(f"{number} nodes: with ports {found:.2f} times the seconds; at most {LIMITS[number]}")
        is_slow = is_slow or found > LIMITS[number]
    return int(is_slow)


if __name__ == "__main__":
    if sys.argv[1:2] == ["apart"]:
        sys.exit(main(map(int, sys.argv[2:])))
    find()  # in that network nothing is downloaded
    words = [sys.executable, "-m", "bench.ports", "apart", *(sys.argv[1:] or map(str, LIMITS))]
    sys.exit(subprocess.call([*as_root(), "unshare", "--net", "sh", "-c", _APART, "sh", *words]))

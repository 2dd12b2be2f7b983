"""What the probe costs a node: CPU milliseconds and processes, of each section and of all.

    python tests/facts/probe_cost.py INVENTORY HOST CONTAINER
        [--commit COMMIT] [--nodes N] [--rounds 5]

It renders the script for HOST of INVENTORY, in this tree and in a git commit, and runs both in
turn in a container of podman, such as gpu-node-lab-v100-01. It prints user and system time of the
script and of all that it starts, the least of some rounds, and the number of processes, by the last
pid of the container's pid namespace: other programs in the container count too. A section alone
includes the frame around it: the first row, a script without a section, is subtracted. `--nodes`
adds peers to the cluster.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
WHOLE, EMPTY = "whole probe", "no section"
# Runs in each tree: what a section is made of differs between commits.
RENDER = """
import json, sys
from gpu_node.facts.node import NodeProbe
from gpu_node.facts.probe.protocol import render
from gpu_node.facts.probe.request import request_of
data = json.load(sys.stdin)
for each in data["cluster_nodes"]:
    each.pop("gpus", None)
request = request_of(data)
asked = NodeProbe().sections_for(request)
scripts = {each.name: render([each]) for each in asked}
json.dump({"whole probe": render(asked, sudo=request.sudo), "no section": render([]), **scripts},
          sys.stdout)
"""
MEASURE = """TIMEFORMAT='cpu %3U %3S'
read -r _ _ _ _ before </proc/loadavg
script=$(cat)
time sh -c 'eval "$1"' sh 'eval "$(cat)"' <<<"$script" >/dev/null 2>&1
read -r _ _ _ _ after </proc/loadavg
echo "processes $((after - before))"
"""


@contextmanager
def tree_of(commit: str) -> Iterator[Path]:
    """Yield a folder with the tree of a commit."""
    with tempfile.TemporaryDirectory() as folder:
        git = ["git", "-C", str(REPOSITORY), "archive", commit]
        packed = subprocess.run(git, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=packed, check=True)
        yield Path(folder)


def host_data(inventory: str, host: str, nodes: int) -> str:
    """Return an inventory's data about a host as JSON, with more peers up to a number of nodes."""
    from gpu_node.facts.ask import gather

    data = gather.host_data(inventory, host)
    peers = list(data.get("cluster_nodes") or ())
    for number in range(len(peers), nodes):
        place = f"10.168.{145 + number // 250}.{number % 250 + 1}"
        peers.append({"name": f"node-{number}", "address": place})
    return json.dumps({**data, "cluster_nodes": peers}, default=str)


def rendered(tree: Path, data: str) -> dict[str, str]:
    """Return the scripts by section, of the code in a tree."""
    env = {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    words = [sys.executable, "-c", RENDER]
    done = subprocess.run(words, input=data, env=env, check=True, capture_output=True, text=True)
    scripts: dict[str, str] = json.loads(done.stdout)
    return scripts


def once(container: str, script: str) -> tuple[float, int]:
    """Return CPU milliseconds and processes of one run of a script."""
    words = ["podman", "exec", "-i", container, "bash", "-c", MEASURE]
    done = subprocess.run(words, input=script, check=True, capture_output=True, text=True)
    cpu = re.search(r"cpu (\S+) (\S+)", done.stderr)
    count = re.search(r"processes (\d+)", done.stdout)
    if cpu is None or count is None:
        raise SystemExit(f"{container} gives no figures: {done.stdout}{done.stderr}")
    # Two processes run the script: the shell and its cat.
    return 1000 * (float(cpu[1]) + float(cpu[2])), int(count[1]) - 2


def least(container: str, scripts: list[str], rounds: int) -> list[tuple[float, int]]:
    """Return the least figures of scripts that run in turn."""
    runs = [[once(container, each) for each in scripts] for _ in range(rounds)]
    columns = zip(*runs, strict=True)
    return [(min(cpu for cpu, _ in each), min(count for _, count in each)) for each in columns]


def shown(name: str, figures: list[tuple[float, int]]) -> str:
    """Return a row of the table."""
    cells = [f"{cpu:8.0f} ms {count:6}" for cpu, count in figures]
    if len(figures) == 2 and figures[0][1] > 0 and figures[0][0] > 0:
        (cpu, count), (now_cpu, now) = figures
        cells.append(f"{now_cpu / cpu:6.2f} {now / count:6.2f}")
    return f"{name:44}{' '.join(cells)}"


def main() -> None:
    """Print a row for each section, and one for all of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("inventory")
    parser.add_argument("host")
    parser.add_argument("container")
    parser.add_argument("--commit", help="compare with this commit")
    parser.add_argument("--nodes", type=int, default=0, help="as many nodes, at least")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--whole", action="store_true", help="without the rows of sections")
    given = parser.parse_args()
    data = host_data(given.inventory, given.host, given.nodes)
    every = [rendered(REPOSITORY, data)]
    if given.commit:
        with tree_of(given.commit) as tree:
            every.insert(0, rendered(tree, data))
    empty = least(given.container, [each[EMPTY] for each in every], given.rounds)
    print(shown(EMPTY, empty))
    print(shown(WHOLE, least(given.container, [each[WHOLE] for each in every], given.rounds)))
    names = [name for name in every[-1] if all(name in each for each in every)]
    for name in [] if given.whole else names:
        if name not in (WHOLE, EMPTY):
            found = least(given.container, [each[name] for each in every], given.rounds)
            pairs = zip(found, empty, strict=True)
            print(shown(name, [(a[0] - b[0], a[1] - b[1]) for a, b in pairs]), flush=True)


if __name__ == "__main__":
    main()

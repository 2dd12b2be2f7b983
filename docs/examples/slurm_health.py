#!/opt/gpu-node/bin/python -I
"""Looks for faults of this Slurm node that stop a job: prints them, drains the node, or fails.

By the name gpu-node-health-check it is Slurm's HealthCheckProgram, and drains the node. By the name
gpu-node-prolog it is a Prolog, and ends with 1. By any other name it prints what it finds.
"""

import json
import os
import socket
import subprocess
import sys

# Errors of these rules drain the node: gpu-node rules lists all.
RULES = {
    "driver.cuda-init",
    "driver.ecc",
    "driver.library-mismatch",
    "driver.module-not-built",
    "driver.no-gpu",  # remove it where nodes without GPUs run this, too
    "driver.not-loaded",
    "driver.row-remap",
    "driver.smi-fails",
    "fabric.manager-down",
    "host.disk-full",
    "host.read-only",
    "shm.too-small",
}
GPU_NODE = os.path.join(os.path.dirname(sys.executable), "gpu-node")
# Slurm kills a HealthCheckProgram after 60 s, and a Prolog has no PATH.
SECONDS = 45
os.environ.setdefault("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")


def main() -> int:
    """Return the exit code; a report that fails is printed, and is no fault of the node."""
    name = os.path.basename(sys.argv[0])
    try:
        done = subprocess.run(
            [GPU_NODE, "drift", "@local", "--format", "json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            timeout=SECONDS,
        )
        hosts = json.loads(done.stdout)["hosts"].values()
    except (OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
        print(f"gpu-node: no report: {error}", file=sys.stderr)
        return 0
    found = {each["rule"] for host in hosts for each in host["findings"] if _is_fault(each)}
    if not found:
        return 0
    reason = f"gpu-node: {' '.join(sorted(found))}"
    print(reason)
    if name == "gpu-node-health-check":
        node = os.environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]
        change = [f"nodename={node}", "state=drain", f"reason={reason}"]
        subprocess.run(["scontrol", "update", *change], timeout=10)
    return 1 if name == "gpu-node-prolog" else 0


def _is_fault(finding: "dict[str, str]") -> bool:
    return finding["severity"] == "error" and finding["rule"] in RULES


if __name__ == "__main__":
    sys.exit(main())

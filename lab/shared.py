"""Builds what the lanes of the tests share, before they start.

python -m gpu_node.lab.shared lab kernel
"""

import sys
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

from gpu_node.lab import life, lock
from gpu_node.lab.errors import LabError
from gpu_node.lab.kernel import ready
from gpu_node.lab.launcher import layer


@lock.alone
def build(wanted: Collection[str]) -> None:
    """Leave the lab running with its launchers' layer in the cache, or the kernels' disks there.

    Each is mostly one process at a time, so they are built side by side.
    """
    if "lab" in wanted:
        life.up()
    with ThreadPoolExecutor() as beside:
        built = beside.submit(ready.build) if "kernel" in wanted else None
        if "lab" in wanted:
            layer.build()
        if built:
            built.result()


if __name__ == "__main__":
    try:
        build(sys.argv[1:])
    except LabError as error:
        sys.exit(f"lab: {error}")
    except KeyboardInterrupt:
        sys.exit("lab: interrupted")

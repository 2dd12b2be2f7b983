"""Programs that hold a GPU but compute nothing, and the steps that do not disturb them."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Literal

from gpu_node.facts.driver.gpus import Process
from gpu_node.facts.probe.lines import lines_of

# What a step does to a node while such a program runs; gpu_holders.tsv explains each.
Step = Literal["verify", "libraries", "segments", "workspace", "reload", "reboot"]
_TABLE = Path(__file__).with_name("gpu_holders.tsv")


@cache
def harmless(step: Step) -> tuple[str, ...]:
    """Return the paths of the programs that a step does not disturb."""
    lines = lines_of(_TABLE.read_text(encoding="utf-8"))
    rows = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return tuple(path for path, steps in rows if step in steps.split())


def jobs(holders: Iterable[Process], step: Step) -> str:
    """Return, as text, the processes that a step would disturb; empty if there are none.

    A process whose program is unknown counts as a job, because a process can choose its name.
    """
    disturbed = [holder for holder in holders if holder.path not in harmless(step)]
    return ", ".join(f"pid {each.pid} ({each.user}: {each.command})" for each in disturbed)

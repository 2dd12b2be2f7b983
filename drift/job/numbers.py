"""The options of launchers that are numbers: what each allows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from gpu_node.drift.job.launch import ACCELERATE, DEEPSPEED, MPIRUN, SRUN, Launch
from gpu_node.drift.job.names import TORCHRUN, UNKNOWN

_DIGITS = re.compile(r"-?\d{1,9}")


class Number(NamedTuple):
    """The least and the most that an option allows, and a form of it that is no number."""

    least: int
    most: int | None = None
    form: re.Pattern[str] | None = None
    words: str = ""

    @property
    def allowed(self) -> str:
        most = "or more" if self.most is None else f"to {self.most}"
        return f"a number, {self.least} {most}{self.words and f', or {self.words}'}"

    def has(self, text: str) -> bool:
        """Whether a text is such a number."""
        if self.form and self.form.fullmatch(text):
            return True
        is_number = _DIGITS.fullmatch(text) and text.isascii()
        return bool(is_number) and self.least <= int(text) <= (self.most or int(text))


_COUNT, _RANK, PORT = Number(1), Number(0), Number(0, 65535)
_ALL = Number(1, None, re.compile("-1"), "-1 for all")
# By the launcher, the names that an option has. Of torchrun, accelerate, DeepSpeed's runner, Open
# MPI's and Slurm's manual pages.
NUMBERS = {
    DEEPSPEED: {"num_nodes": _ALL, "num_gpus": _ALL, "node_rank": _RANK, "master_port": PORT},
    TORCHRUN: {
        "nnodes": Number(1, None, re.compile(r"[1-9]\d{0,8}:[1-9]\d{0,8}"), "MIN:MAX"),
        "nproc_per_node": Number(1, None, re.compile("auto|gpu|cpu|xpu"), "auto, gpu, cpu, xpu"),
        "node_rank": _RANK,
        "master_port": PORT,
    },
    ACCELERATE: {
        "num_machines": _COUNT,
        "num_processes": _COUNT,
        "machine_rank": _RANK,
        "main_process_port": PORT,
    },
    MPIRUN: dict.fromkeys(("np", "n", "c", "N", "npernode", "ppn"), _COUNT),
    SRUN: {
        "nodes": Number(1, None, re.compile(r"[1-9][\dkKmM]*([-,:][1-9][\dkKmM]*)*"), "MIN-MAX"),
        "ntasks": _COUNT,
        "ntasks_per_node": _COUNT,
    },
}


def not_numbers(launch: Launch) -> Iterator[tuple[str, str, str]]:
    """Yield each option of a launch that is no number, or not in its range.

    Name, what was found, what is allowed; what only the shell knows is passed over.
    """
    for each in launch.nested:
        for name, number in NUMBERS.get(each.kind, {}).items():
            text = each.options.get(name)
            if text is not None and UNKNOWN not in text and not number.has(text):
                dashes = "-" if each.kind == MPIRUN or len(name) == 1 else "--"
                yield f"{dashes}{name}", text or "no value", number.allowed

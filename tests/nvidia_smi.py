"""What `nvidia-smi -q` prints, as the stand-ins of tests print it."""

from __future__ import annotations

import shlex


def everything(*gpus: str, attached: int | None = None, driver: str = "535.154.05") -> str:
    """Return the whole text about GPUs, each made by `gpu`."""
    lines = [
        *("", "==============NVSMI LOG==============", ""),
        _line(0, "Timestamp", "Thu Nov 26 08:14:15 2026"),
        *(_line(0, "Driver Version", driver), ""),
        _line(0, "Attached GPUs", str(len(gpus) if attached is None else attached)),
    ]
    return "\n".join([*lines, *gpus]) + "\n"


def gpu(
    *more: str,
    slot: str = "00000000:18:00.0",
    uuid: str = "GPU-1",
    persistence: str = "Enabled",
    mode: str = "Default",
    processes: str = "",
) -> str:
    """Return the lines about an A100; `more` are further keys, each with its value."""
    lines = [
        f"GPU {slot}",
        _line(1, "Product Name", "NVIDIA A100-PCIE-40GB"),
        _line(1, "Persistence Mode", persistence),
        "    MIG Device",
        "        FB Memory Usage",
        _line(3, "Total", "20096 MiB"),
        _line(1, "GPU UUID", uuid),
        "    FB Memory Usage",
        _line(2, "Total", "40960 MiB"),
        _line(1, "Compute Mode", mode),
        *more,
        f"    Processes\n{processes}" if processes else _line(1, "Processes", "None"),
    ]
    return "\n".join(lines) + "\n"


def _line(depth: int, key: str, value: str) -> str:
    blank = "    " * depth
    return f"{blank}{key:{42 - len(blank)}}: {value}"


def program(text: str) -> str:
    """Return a stand-in that prints such a text, whatever it is asked."""
    return f"#!/bin/sh\nprintf '%s' {shlex.quote(text)}\n"

"""The register of areas: each room has a folder for each name and loads from it what it needs."""

from __future__ import annotations

# In the order of a report.
AREAS = (
    "driver",
    "shm",
    "limits",
    "toolchain",
    "nccl",
    "ssh",
    "network",
    "env",
    "workspace",
    "clock",
)

"""Ways to carry the probe to nodes beside this machine's own SSH sessions: engines that sites have."""

from __future__ import annotations

# What --via offers; the first is the default.
SSH, CLUSTERSHELL, SLURM = VIAS = ("ssh", "clustershell", "slurm")

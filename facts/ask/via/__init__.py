"""Engines of a site that carry the probe to nodes, in place of this machine's SSH sessions."""

# What --via offers; the first is the default.
SSH, CLUSTERSHELL, SLURM = VIAS = ("ssh", "clustershell", "slurm")
# How an answer came that a site brought as a file.
FILES = "files"

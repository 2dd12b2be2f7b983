"""The job that a report is about: its files, paths, programs, ports and names on the node."""

from gpu_node.facts.job.state import Jobs as Jobs

"""The host itself: memory, the kernel log, the last boot, disks, its name and time zone."""

from gpu_node.facts.host.state import HostFact as HostFact

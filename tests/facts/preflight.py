"""The sections that only a server is asked that is to become a node."""

from __future__ import annotations

from gpu_node.facts import node
from gpu_node.facts.probe.peers import Peer
from gpu_node.facts.probe.request import Joining, ProbeRequest

REQUEST = ProbeRequest(joining=Joining(Peer(name="newcomer", address="192.0.2.1")))
# What is found without being named belongs to every request.
_ALWAYS = {"nccl.discovered", *(each.name for each in node.SECTIONS)}
SECTIONS = tuple(each for each in node.sections(REQUEST) if each.name not in _ALWAYS)

"""What a probe asks about, from the data of a host as an inventory or --data gives them."""

from __future__ import annotations

import shlex

import pytest

from gpu_node.facts.node import NodeProbe
from gpu_node.facts.probe.peers import Peer
from gpu_node.facts.probe.request import ProbeRequest, request_of


@pytest.mark.parametrize(
    ("value", "asked"),
    [
        (["/opt/a", "/opt/b"], ("/opt/a", "/opt/b")),
        ("/opt/a", ("/opt/a",)),
        ("/opt/a,/opt/b", ("/opt/a", "/opt/b")),
        (None, ()),
    ],
)
def test_forms_of_environments(value: object, asked: tuple[str, ...]) -> None:
    """A single folder, or several with commas, is no list of letters."""
    assert request_of({"nccl_environments": value}).environments == asked


def test_who_trains() -> None:
    """The SSH user, unless another one launches."""
    assert request_of({"ssh_user": "root"}).user == "root"
    assert request_of({"ssh_user": "root", "launcher_user": "train"}).user == "train"


def test_all_of_it_is_one_argument() -> None:
    """Linux takes 128 KiB of one (MAX_ARG_STRLEN); pyinfra quotes the script once more."""
    nodes = tuple(Peer(name=f"gpu-{count:02}", address=f"192.0.2.{count}") for count in range(40))
    folders = tuple(f"/data/conda/envs/environment-{count}" for count in range(20))
    named = ProbeRequest(environments=folders, nodes=nodes, user="train", mesh=True, sudo=True)
    assert len(shlex.quote(shlex.quote(NodeProbe().script_for(named)))) < 128 * 1024

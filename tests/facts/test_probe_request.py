"""What a probe asks about, from the data of a host as an inventory or --data gives them."""

from __future__ import annotations

import pytest

from gpu_node.facts.probe.request import request_of


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

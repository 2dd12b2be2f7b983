"""What a probe asks about, from the data of a host as an inventory or --data gives them."""

from __future__ import annotations

import pytest

from facts.named import named_by


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        (["/opt/a", "/opt/b"], ("/opt/a", "/opt/b")),
        ("/opt/a", ("/opt/a",)),
        ("/opt/a,/opt/b", ("/opt/a", "/opt/b")),
        (None, ()),
    ],
)
def test_environments_as_they_are_said(said: object, asked: tuple[str, ...]) -> None:
    """A single folder, or several with commas, is no list of letters."""
    assert named_by({"nccl_environments": said}).environments == asked


def test_who_trains() -> None:
    """The SSH user, unless another one launches."""
    assert named_by({"ssh_user": "root"}).user == "root"
    assert named_by({"ssh_user": "root", "launcher_user": "train"}).user == "train"

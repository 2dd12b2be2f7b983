"""What findings are about: data that steps and causes read, whose text the report has."""

from __future__ import annotations

import pytest

from gpu_node.drift.driver.subjects import Initramfs, KernelRelease, LoadedModule
from gpu_node.drift.engine.check import check
from gpu_node.drift.engine.subject import (
    FileLine,
    Logins,
    Package,
    Path,
    Peers,
    Pid,
    Prefix,
    Subject,
    Thing,
    Variable,
)
from gpu_node.drift.nccl.rules import LoadedLibrary
from tests.drift import states

ENV = "/opt/conda"


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        (Path("/opt/work", "the controller"), "/opt/work on the controller"),
        (FileLine("/etc/nccl.conf", 2), "/etc/nccl.conf:2"),
        (Pid(12), "pid 12"),
        (Pid(12, "screen"), "pid 12 (screen)"),
        (Package("pyarrow", ENV), "pyarrow in /opt/conda"),
        (Initramfs("5.4.0"), "initramfs of 5.4.0"),
        (Variable("NCCL_DEBUG", "~/.bashrc:3"), "NCCL_DEBUG (~/.bashrc:3)"),
        (Logins("a", (Peers("refused", ("b", "c")),)), "a"),
    ],
)
def test_the_text_of_a_subject(subject: Subject, text: str) -> None:
    assert str(subject) == text


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (KernelRelease("5.4.0"), KernelRelease("5.4.0"), True),
        (KernelRelease("5.4.0"), KernelRelease("5.15.0"), False),
        (KernelRelease("5.4.0"), Initramfs("5.4.0"), True),
        (LoadedModule("nvidia", "5.4.0"), KernelRelease("5.4.0"), True),
        (LoadedLibrary(ENV, "wheel"), Prefix(ENV), True),
        (Package("pyarrow", ENV), Prefix("/opt/venv"), False),
        (Logins("a", (Peers("x", ("b", "c")),)), Logins("a", (Peers("y", ("c", "d")),)), True),
        (Logins("a", (Peers("x", ("b", "c")),)), Logins("a", (Peers("x", ("d",)),)), False),
        (Logins("a", (Peers("x", ("b", "c")),)), Logins("b", (Peers("x", ("c",)),)), False),
        (Thing("dkms"), KernelRelease("5.4.0"), False),
    ],
)
def test_two_subjects_are_the_same_by_what_both_have(
    one: Subject, other: Subject, same: bool
) -> None:
    assert one.is_same(other) is same


def test_a_finding_has_its_subject_as_data_and_as_text() -> None:
    """The data is no part of the report's JSON."""
    [finding] = [
        each
        for each in check(states.state({"shm": {"usage": {"size": 1, "used": 0}}}), states.wanted())
        if each.rule == "shm.too-small"
    ]
    assert (finding.about, finding.subject) == (Path("/dev/shm"), "/dev/shm")
    assert "about" not in finding.model_dump(mode="json")


REFUSED = Peers("by name: NODE refused", ("n1", "n2", "n3"), ("n1 refused", "n2 refused", "n3"))


@pytest.mark.parametrize(
    ("peers", "text"),
    [
        ((REFUSED,), "3 nodes, n[1-3]: by name: NODE refused"),
        ((REFUSED.only({"n2"}),), "n2: n2 refused"),
        (
            (REFUSED, *(Peers(f"other {each}", (f"m{each}",)) for each in range(2))),
            "3 nodes, n[1-3]: by name: NODE refused; m0: other 0; m1: other 1",
        ),
        (
            tuple(Peers(f"other {each}", (f"m{each}",)) for each in range(9)),
            "m0: other 0; m1: other 1; m2: other 2; 6 more, m[3-8]",
        ),
    ],
)
def test_logins_name_every_peer(peers: tuple[Peers, ...], text: str) -> None:
    """As ranges with their number; what is wrong with many of them in many ways is left out."""
    assert Logins("a", peers).found == text

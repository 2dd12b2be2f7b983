"""What findings are about: data that steps and causes read, whose text the report has."""

from __future__ import annotations

import pytest

from gpu_node.drift.engine.check import check
from gpu_node.drift.engine.subject import (
    FileLine,
    Initramfs,
    KernelRelease,
    LoadedLibrary,
    LoadedModule,
    Node,
    Package,
    Path,
    Pid,
    Prefix,
    Subject,
    Thing,
    Variable,
)
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
        (Node("a", loopback_line=3), Node("a"), True),
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
        for each in check(states.found({"shm": {"usage": {"size": 1, "used": 0}}}), states.wanted())
        if each.rule == "shm.too-small"
    ]
    assert (finding.about, finding.subject) == (Path("/dev/shm"), "/dev/shm")
    assert "about" not in finding.model_dump(mode="json")

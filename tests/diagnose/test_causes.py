"""The files of causes: each says what it must, and its texts are where it says."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from gpu_node.diagnose.cause import Cause, CauseError, causes, load
from gpu_node.drift.driver.target import floor, support
from gpu_node.drift.report.explained import UNREADABLE, in_order
from gpu_node.drift.tables import releases
from tests.diagnose.extract import extracts, of_packages

CAUSES = causes()
ANSWERS = [each for each in CAUSES.values() if each.level != "consequence"]


@pytest.mark.parametrize("name", CAUSES)
def test_what_a_cause_names_is_there(name: str) -> None:
    """The causes that it explains are no consequences, and its rules are rules."""
    cause = CAUSES[name]
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)
    assert [each for each in cause.explains if CAUSES[each].level == "consequence"] == []
    assert name not in cause.explains
    assert {*cause.rules} <= {*(rule.id for rule in in_order()), *UNREADABLE}


@pytest.mark.parametrize("cause", ANSWERS, ids=lambda cause: cause.name)
def test_an_answer_says_what_to_do(cause: Cause) -> None:
    """What is wrong is one sentence without a full stop."""
    assert cause.confirm
    assert cause.remedy
    assert cause.says
    assert not cause.says.endswith(".")


def test_what_remedies_say_of_gpus_and_drivers_is_in_the_tables() -> None:
    """The last branch and CUDA for a V100, the wheels, and the releases that have it."""
    driver, kernels = CAUSES["driver-too-old"].remedy, CAUSES["no-kernel-image"].remedy
    volta, found = support("V100"), re.findall(r"\bcu(\d\d)(\d)\b", driver + kernels)
    assert volta is not None
    assert (
        f"V100: {volta.last} is the last" in driver and f"CUDA {(volta.cuda or 0) + 1})" in driver
    )
    assert f"branch {floor('12.2')} or newer" in driver
    assert found and {".".join(each) for each in found} <= {each.cuda for each in releases()}
    assert "cu126 wheels of torch 2.6 to 2.14" in kernels
    for minor in range(6, 15):
        (row,) = (
            each
            for each in releases()
            if each.is_of(f"2.{minor}.0") and each.cuda == "12.6" and each.machine == "x86_64"
        )
        assert "sm_70" in row.architectures


def test_no_two_causes_explain_each_other() -> None:
    """Each would be the reason for the other."""
    seen = {name: {*cause.explains} for name, cause in CAUSES.items()}
    assert [(a, b) for a in seen for b in seen[a] if a in seen[b]] == []


def test_no_text_is_in_two_places() -> None:
    """A text with the same conditions would name two causes for one line."""
    placed = sorted(
        (pattern.has, pattern.line, pattern.near, pattern.without, name)
        for name, cause in CAUSES.items()
        for pattern in cause.patterns
    )
    assert [(one, two) for one, two in pairwise(placed) if one[:4] == two[:4]] == []


@pytest.mark.parametrize("package", of_packages())
def test_a_text_is_in_the_file_that_it_names(package: str) -> None:
    """Of a release of the package."""
    texts = {
        (file, text)
        for each in extracts()
        if each.package == package
        for file, listed in each.texts.items()
        for text in listed
    }
    missing = [
        (name, pattern.has)
        for name, pattern in of_packages()[package]
        if not any(
            f"/{file}".endswith(f"/{pattern.source.file}") and pattern.has.strip() in text
            for file, text in texts
        )
    ]
    assert missing == []


def test_a_text_of_no_package_was_seen_somewhere() -> None:
    """A thread, a manual, or a recorded log."""
    sources = [
        (name, pattern.has)
        for name, cause in CAUSES.items()
        for pattern in cause.patterns
        if not (pattern.source.seen or (pattern.source.package and pattern.source.file))
    ]
    assert sources == []


def test_a_file_with_an_unknown_key_is_refused(tmp_path: Path) -> None:
    """Its name and the key are named."""
    path = tmp_path / "odd.yml"
    path.write_text("says: x\nside: code\npattern: []\n")
    with pytest.raises(CauseError, match=r"odd\.yml: (.|\n)*pattern"):
        load(path)

"""The files of causes: each says what it must, and its texts are where it says."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from gpu_node.diagnose.cause import (
    DESCRIBED,
    Cause,
    causes,
    comparisons,
    exceptions,
    load,
    meanings,
    speakers,
    starts,
)
from gpu_node.drift.driver.target import floor, support
from gpu_node.drift.report.explained import UNREADABLE, in_order
from gpu_node.drift.tables import pip_torch, releases
from tests.diagnose.extract import extracts, of_packages

CAUSES = causes()
# Words that stand in all texts.
EMPTY = re.compile(
    r"(?:the|and|not|for|all|one|has|its|are|with|that|this|than|from|nodes?|each|other|have|does)$"
)
# A file of a release, a thread, a recorded log; or a page that describes the text.
FORM = re.compile(
    r"https://github\.com/[\w.-]+/[\w.-]+/(?:blob|tree)/(?!main/|master/|develop/)[\w.+-]+(?:/\S+)?"
    r"|https://github\.com/[\w.-]+/[\w.-]+/(?:issues|pull|discussions)/\d+\S*"
    r"|https://gist\.github\.com/\S+|the recorded log [\w-]+|described at https://\S+"
)
ANSWERS = [each for each in CAUSES.values() if each.level != "consequence"]


@pytest.mark.parametrize("name", CAUSES)
def test_what_a_cause_names_is_there(name: str) -> None:
    """The causes that it explains are no consequences, and its rules are rules."""
    cause = CAUSES[name]
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)
    assert [each for each in cause.explains if CAUSES[each].level == "consequence"] == []
    assert name not in cause.explains
    assert {*cause.rules} <= {*(rule.id for rule in in_order()), *UNREADABLE}


def _stems(text: str) -> set[str]:
    """Return the first letters of a text's words, but those that say nothing."""
    words = re.findall(r"[a-z]{3,}", text.lower())
    return {word[:4] for word in words if not EMPTY.match(word)}


def test_a_rule_looks_for_the_cause_that_names_it() -> None:
    """They speak of the same thing."""
    rules = {rule.id: f"{rule.id} {rule.checks} {rule.why}" for rule in in_order()}
    strange = [
        f"{name}: {rule}"
        for name, cause in CAUSES.items()
        for rule in {*cause.rules} & {*rules}
        if not _stems(rules[rule])
        & _stems(" ".join((name, cause.says, cause.confirm, cause.remedy)))
    ]
    assert strange == []


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
    without = CAUSES["torch-without-cuda"].remedy
    for each in (driver, kernels, without):
        assert pip_torch(["V100"]) in each


def test_no_two_causes_explain_each_other() -> None:
    """Each would be the reason for the other."""
    seen = {name: {*cause.explains} for name, cause in CAUSES.items()}
    assert [(a, b) for a in seen for b in seen[a] if a in seen[b]] == []


def test_no_text_is_in_two_places() -> None:
    """A text with the same conditions would name two causes for one line."""
    placed = sorted(
        (pattern.has, pattern.line, pattern.near, pattern.without, pattern.stage, name)
        for name, cause in CAUSES.items()
        for pattern in cause.patterns
    )
    assert [(one, two) for one, two in pairwise(placed) if one[:5] == two[:5]] == []


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


def test_each_row_has_a_source() -> None:
    """A package with versions and file, or what FORM has: of each pattern and each table's row."""
    rows = {f"{each.has}, {each.line}": each.source for each in speakers()}
    rows |= {f"{each.object}, {each.of}": each.source for each in meanings()}
    rows |= {each.line: each.source for each in (*starts(), *comparisons(), *exceptions())}
    for name, cause in CAUSES.items():
        for each in cause.patterns:
            of = each.source
            is_whole = bool(of.package and of.versions and of.file)
            rows[f"{name}: {each.has}, {each.line}"] = "" if is_whole else of.seen
            assert is_whole == bool(of.package) != bool(of.seen), each
    assert [row for row, source in rows.items() if source and not FORM.fullmatch(source)] == []
    assert all(rows[row] or row.partition(":")[0] in CAUSES for row in rows)


def test_a_row_whose_text_a_page_describes_proves_nothing() -> None:
    """Such a page names no release, and may have other words than the program."""
    described = [
        each
        for cause in CAUSES.values()
        for each in cause.patterns
        if each.source.seen.startswith(DESCRIBED)
    ]
    assert described
    assert [each.has for each in described if each.is_specific] == []


def test_a_file_with_an_unknown_key_is_refused(tmp_path: Path) -> None:
    """Its name and the key are named."""
    path = tmp_path / "odd.yml"
    path.write_text("says: x\nside: code\npattern: []\n")
    with pytest.raises(ValueError, match=r"odd\.yml: (.|\n)*pattern"):
        load(path)

"""The labelled logs are answered as often as docs/diagnose.md says; no healthy one alarms."""

from __future__ import annotations

import pytest

from gpu_node.diagnose.cause import causes
from tests.diagnose import figures
from tests.diagnose.test_recorded import labels
from tests.diagnose.test_threads import HALVES, threads


def test_the_page_is_current() -> None:
    """`python -m tests.diagnose.figures --write` writes it again."""
    assert figures.PAGE.read_text("utf-8") == figures.page()


def test_each_label_is_named() -> None:
    """By causes that there are."""
    slugs = {thread.slug for half in HALVES for thread in threads(half)}
    assert slugs == figures.names("threads").keys()
    assert labels().failed.keys() == figures.names("recorded").keys()
    for of in ("threads", "recorded"):
        meant = {name for named in figures.names(of).values() for name in named}
        assert meant <= causes().keys()


def test_no_alarm_on_a_healthy_log() -> None:
    """Whatever warnings it has."""
    assert figures.alarms() == []


def test_a_failed_log_is_not_healthy() -> None:
    """Whatever its other ranks print after the failure."""
    verdicts = {each.name: each.answer.verdict for each in figures.judged("recorded")}
    assert [name for name in verdicts if verdicts[name] in ("healthy", "went on")] == []


@pytest.mark.parametrize("of", ["seen", "recorded"])
def test_most_causes_are_first(of: str) -> None:
    """Of the logs that the authors of patterns could see."""
    found = figures.figures(of)
    assert found["first"] >= 0.75 * found["logs"]
    assert found["side"] >= 0.8 * found["logs"]

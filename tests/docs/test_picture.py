"""The pictures in the README are what was recorded, drawn by the code as it is now."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from docs import picture
from gpu_node.drift.engine.registry import RULES
from gpu_node.drift.report.json import WrittenReport
from gpu_node.facts.node import state_of


def test_the_picture_is_current() -> None:
    """The picture must show the present report; `python docs/picture.py` draws it again."""
    assert picture.PICTURE.read_text(encoding="utf-8") == picture.draw()
    assert picture.DEMO.read_text(encoding="utf-8") == picture.draw_demo()


def test_the_recorded_report_is_of_this_version() -> None:
    """Its rules, areas and fields are those of the code as it is now, which may have more."""
    report = WrittenReport.model_validate_json(picture.RECORDED.read_text(encoding="utf-8"))
    for host in report.hosts.values():
        assert isinstance(host.facts, dict)
        state_of(host.facts)
        assert {each.rule for each in host.findings} <= {*RULES}
    assert any(each.root for host in report.hosts.values() for each in host.findings)


@pytest.mark.parametrize("draw", [picture.draw, picture.draw_demo])
def test_the_picture_asks_no_other_host_for_anything(draw: Callable[[], str]) -> None:
    """No font or script is loaded from elsewhere when a browser shows the README."""
    drawn = draw().replace("http://www.w3.org/2000/svg", "")
    assert "http" not in drawn and "url(" not in drawn.replace("url(#", "")


def test_the_demo_ends_well() -> None:
    """The last act has no problem; the one before has the proof."""
    acts = json.loads(picture.ACTS.read_text(encoding="utf-8"))
    assert WrittenReport.model_validate(acts["after"]).exit_code() == 0
    assert acts["operations"][-1]["name"] == "Prove it"


def test_the_readme_shows_it() -> None:
    """The README's picture is this file."""
    readme = (picture.HERE.parent / "README.md").read_text(encoding="utf-8")
    assert f"docs/{picture.PICTURE.name}" in readme and f"docs/{picture.DEMO.name}" in readme

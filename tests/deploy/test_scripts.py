"""What a script's head says: the scripts that it needs in front of it, and what it disturbs."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from gpu_node.deploy.engine import scripts
from gpu_node.facts.driver.gpu_holders import Step

DEPLOY = Path(__file__).parents[2] / "deploy"
MODULES = "".join(
    path.read_text(encoding="utf-8")
    for room in ("deploy", "onboarding")
    for path in (DEPLOY.parent / room).rglob("*.py")
)


@pytest.mark.parametrize("name", scripts.FILES)
def test_what_a_script_needs_is_there(name: str) -> None:
    """Each name is a script, once."""
    needed = scripts.needed(name)
    assert len({*needed}) == len(needed)
    assert not {*needed} - scripts.FILES.keys()


@pytest.mark.parametrize("name", scripts.FILES)
def test_what_would_disturb_a_job_asks_before(name: str) -> None:
    """A script that needs in_use.sh says which step it is, and has the functions of its row."""
    disturbs, needed = scripts._named(name, "Disturbs"), scripts.needed(name)
    assert len(disturbs) == ("in_use" in needed)
    assert {*disturbs} <= {*get_args(Step)}
    for step in disturbs:
        functions = {"reload": ["containers"], "reboot": ["containers", "boot_ends"]}.get(step, [])
        assert {*functions} <= {*needed[: needed.index("in_use")]}


@pytest.mark.parametrize("name", scripts.FILES)
def test_what_a_script_is_given_is_known(name: str) -> None:
    """The engine or an area has each variable, and the script or one before it reads it."""
    given = scripts.given(name)
    assert {*given} == {*scripts._named(name, "Given")}
    texts = [*map(scripts.text, (*scripts.needed(name), name)), *given.values()]
    assert not [each for each in given if f"${each}" not in "".join(texts)]
    assert scripts._named(name, "By") in ((), ("owner",))


@pytest.mark.parametrize("name", scripts.FILES)
def test_a_script_is_sent(name: str) -> None:
    """A script that no module names and no other one needs would be dead."""
    is_needed = any(name in scripts.needed(each) for each in scripts.FILES)
    assert is_needed or f'"{name}"' in MODULES


def test_no_two_scripts_have_one_name() -> None:
    names = [path.stem for path in DEPLOY.rglob("*.sh")]
    assert len({*names}) == len(names)

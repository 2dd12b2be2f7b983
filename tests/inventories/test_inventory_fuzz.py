"""Whatever a cluster file holds: a cluster or an InventoryError of whole lines, nothing else."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gpu_node.inventories.errors import InventoryError
from gpu_node.inventories.schema import load
from tests.examples import examples

LAB = (Path(__file__).parents[2] / "inventories" / "lab.yml").read_text()
KEYS = """cluster defaults groups hosts ssh gpu shm limits toolchain cmake size nofile memlock
stack model count address group key known_hosts user port sudo a100 v100 a100-01 all self"""
PLAIN = "8G unlimited 10.0.0.4 ~nobody/x node.example - -x"
WORDS = st.sampled_from(f"{KEYS} {PLAIN}".split())
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.dates() | st.text(max_size=5)
VALUES = st.recursive(
    LEAVES | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | LEAVES, inner, max_size=5),
    max_leaves=12,
)
FEW = settings(max_examples=examples(300), deadline=None, suppress_health_check=list(HealthCheck))


def must_answer(path: Path) -> None:
    try:
        load(path)
    except InventoryError as error:
        assert error.lines
        for line in error.lines:
            assert line.startswith(f"{path}:")
            assert "; allowed: " in line and "; next: " in line
            assert len(line.splitlines()) == 1


@FEW
@given(value=st.dictionaries(WORDS, VALUES, max_size=5), section=st.sampled_from(["", "hosts"]))
@example(value={"defaults": {"\0": None, "env": {"\0": 1}}}, section="")
def test_any_structure(value: dict[str, Any], section: str, tmp_path: Path) -> None:
    whole = {**value, "cluster": "c", "groups": {"g": value}, section: value} if section else value
    path = tmp_path / "c.yml"
    path.write_text(yaml.safe_dump(whole), encoding="utf-8")
    must_answer(path)


@FEW
@given(place=st.integers(0, len(LAB)), cut=st.integers(0, 40), put=st.text(max_size=4))
def test_any_slip_of_the_hand(place: int, cut: int, put: str, tmp_path: Path) -> None:
    path = tmp_path / "lab.yml"
    path.write_bytes((LAB[:place] + put + LAB[place + cut :]).encode("utf-8", "replace"))
    must_answer(path)


@pytest.mark.parametrize("user", ["~nobody-of-that-name/key", "~/no/such/key"])
def test_home_folders(user: str, tmp_path: Path) -> None:
    path = tmp_path / "lab.yml"
    path.write_text(LAB.replace("../.lab/id_ed25519", user))
    must_answer(path)

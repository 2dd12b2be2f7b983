"""The JSON Schemas of the report and of a cluster file are those of the models that check both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from docs import schema
from gpu_node.inventories.keys import examples, keys_of, leaf_paths
from gpu_node.inventories.schema import HostEntry, Layer, load

REPOSITORY = Path(__file__).parents[2]
VALIDATOR = jsonschema.Draft202012Validator(schema.cluster())
HOSTS = {"a100-01": {"address": "10.0.0.4"}}
# What a level may have, beside the example of each key.
ACCEPTED: list[dict[str, Any]] = [
    {"driver": 535},
    {"driver": "535.154.05"},
    {"nccl": "match-torch"},
    {"network": "auto"},
    {"launcher": "deepspeed"},
    {"proxy": "http://10.0.0.2:3128"},
    {"limits": {"memlock": "unlimited", "nofile": 131072}},
    {"jobs": {"parameters": 7_000_000_000}},
    {"jobs": {"parameters": "7e9"}},
    {"gpu": {"count": 2}},
    {"shm": {"remove_ipc": False}},
    {"shm": None},
    {"workspace": [{"path": "/data/models", "source": "a100-01"}]},
    {"workspace": {"delete_limit": "30%", "backup": {"max": "10G"}}},
    {"nccl": {"environments": "/opt/a,/opt/b"}},
    {"supply": {"hashes": {"pyarrow==15.0.2": "0" * 64}}},
    {"checks": {"clock": False, "shm.differs": False}},
]
REFUSED: list[dict[str, Any]] = [
    {"shmm": {"size": "8G"}},
    {"shm": {"sise": "8G"}},
    {"shm": {"size": 8}},
    {"shm": {"size": None}},
    {"limits": {"nofile": "131072"}},
    {"limits": {"nofile": 10}},
    {"launcher": "torchrunn"},
    {"ssh": {"mesh": "yes"}},
    {"directories": [{"owner": "root"}]},
    {"env": ["A=1"]},
]


def whole(defaults: object) -> dict[str, Any]:
    """Return a cluster file with these defaults."""
    return {"cluster": "c", "defaults": defaults, "hosts": HOSTS}


@pytest.mark.parametrize("file", schema.FILES, ids=lambda file: file.name)
def test_the_schema_is_current(file: Path) -> None:
    """`python docs/schema.py` writes it again."""
    is_current = file.read_text(encoding="utf-8") == schema.text(schema.FILES[file]())
    assert is_current, f"{file.name} is out of date: run python docs/schema.py"


def test_it_knows_each_key() -> None:
    """What each does, and what it takes, is shown beside it."""
    text = schema.CLUSTER.read_text(encoding="utf-8")
    missing = [key.path for key in keys_of(HostEntry) if key.does not in text.replace('\\"', '"')]
    assert missing == []


@pytest.mark.parametrize("path", leaf_paths(Layer), ids=".".join)
def test_it_accepts_the_example_of_each_key(path: tuple[str, ...]) -> None:
    """As a person writes it."""
    for example in examples(Layer, path):
        value = example
        for key in reversed(path):
            value = {key: value}
        assert [*VALIDATOR.iter_errors(whole(value))] == []


@pytest.mark.parametrize("defaults", ACCEPTED, ids=str)
def test_it_accepts_what_a_level_may_have(defaults: dict[str, Any]) -> None:
    """Short forms, sections of which another level has the rest, text in place of lists."""
    assert [*VALIDATOR.iter_errors(whole(defaults))] == []


@pytest.mark.parametrize("defaults", REFUSED, ids=str)
def test_it_marks_what_is_wrong(defaults: dict[str, Any], tmp_path: Path) -> None:
    """Unknown keys, and values of another type; the command refuses them as well."""
    assert [*VALIDATOR.iter_errors(whole(defaults))] != []
    file = tmp_path / "site.yml"
    file.write_text(yaml.safe_dump(whole(defaults)))
    with pytest.raises(ValueError):
        load(file)


def test_it_accepts_the_inventory_of_the_lab() -> None:
    """With all its sections and levels."""
    VALIDATOR.validate(yaml.safe_load((REPOSITORY / "inventories" / "lab.yml").read_text()))

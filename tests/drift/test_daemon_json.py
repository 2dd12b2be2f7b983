"""daemon.json with other values: the user's bytes stay, and docker reads what is wanted."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_node.drift.shm.daemon_json import size_of, soft_limits, values_of, with_values

WANTED = {"default-shm-size": "8G"}
EDITS = {
    "no file": ("", '{\n  "default-shm-size": "8G"\n}\n'),
    "an empty object": ("{}\n", '{\n  "default-shm-size": "8G"\n}\n'),
    "blanks alone": ("{ \n }", '{\n  "default-shm-size": "8G"\n}'),
    "one line": ('{"debug":true}', '{"debug":true,"default-shm-size": "8G"}'),
    "tabs and CRLF": (
        '{\r\n\t"a": [1, {"default-shm-size": "1G"}]\r\n}\r\n',
        '{\r\n\t"a": [1, {"default-shm-size": "1G"}],\r\n\t"default-shm-size": "8G"\r\n}\r\n',
    ),
    "another value": (
        '{ "default-shm-size" :  "64M" , "x": "}\\"" }',
        '{ "default-shm-size" :  "8G" , "x": "}\\"" }',
    ),
    "the same value": ('{"default-shm-size":"8G"  }', '{"default-shm-size":"8G"  }'),
    "bytes that are no ASCII": ('{"label": "\xe4"}', '{"label": "\xe4","default-shm-size": "8G"}'),
}


@pytest.mark.parametrize("case", EDITS)
def test_only_our_key_changes(case: str) -> None:
    before, after = EDITS[case]
    assert with_values(before, WANTED) == after
    assert with_values(after, WANTED) == after


_KEYS = st.sampled_from(["default-shm-size", "debug", "a b", '"', "default-ulimits"])
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)


@given(st.dictionaries(_KEYS, _VALUES), st.sampled_from([None, 0, 2, "\t"]))
def test_all_other_keys_stay_in_their_order(known: dict[str, object], indent: int | None) -> None:
    new = with_values(json.dumps(known, indent=indent), WANTED)
    assert list(json.loads(new).items()) == list({**known, **WANTED}.items())


@pytest.mark.parametrize("text", ["[]", "{", '{"a": 1,}', '{"a": 1, "a": 2}', "8G", '{"a": NaN}'])
def test_what_docker_cannot_read_is_not_edited(text: str) -> None:
    with pytest.raises(ValueError):
        with_values(text, WANTED)
    with pytest.raises(ValueError):
        values_of(text)


def test_sizes_and_limits_as_docker_takes_them() -> None:
    assert [size_of(each) for each in ("64M", "1g", "2GiB", "512 mb", "1024", 7)] == [
        64 << 20,
        1 << 30,
        2 << 30,
        512 << 20,
        1024,
        7,
    ]
    assert [size_of(each) for each in ("8X", "", True, None, [1])] == [None] * 5
    assert soft_limits({"memlock": {"Soft": -1}, "core": {"Soft": "0"}, "x": 3}) == {"memlock": -1}
    assert soft_limits("nofile") == {}

"""The texts of our limits files: their units, and only the lines that are asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_node.deploy.limits.step import content
from gpu_node.drift.limits.pam_limits import KINDS, OwnLines
from gpu_node.drift.limits.services import drop_in, text_of
from gpu_node.facts.limits.services import Service
from gpu_node.facts.limits.state import UNITS, Item, parse_files
from gpu_node.inventories.wanted import LimitsWanted

ITEMS: list[Item] = ["nofile", "memlock", "stack"]
NAMES = st.lists(st.from_regex(r"[a-z_][a-z0-9_-]{0,14}", fullmatch=True), min_size=1, max_size=4)


@st.composite
def own(draw: st.DrawFn) -> OwnLines:
    """Limits that a file of ours may say: whole units of limits.conf, or unlimited."""
    lines: OwnLines = {}
    for kind in KINDS:
        for item in ITEMS:
            count = draw(st.none() | st.just("unlimited") | st.integers(1, 2**40))
            if isinstance(count, int):
                lines[kind, item] = count * UNITS[item]
            elif count is not None:
                lines[kind, item] = "unlimited"
    return lines


def test_the_whole_text() -> None:
    """The file as a person reads it: root beside all users, soft beside hard, KiB for sizes."""
    lines: OwnLines = {
        ("soft", "nofile"): 16384,
        ("hard", "nofile"): 16384,
        ("hard", "memlock"): "unlimited",
        ("soft", "stack"): 8 << 20,
    }
    assert content(lines, ["*", "root"]).splitlines()[2:] == [
        "*        hard memlock  unlimited",
        "*        hard nofile   16384",
        "*        soft nofile   16384",
        "*        soft stack    8192",
        "root     hard memlock  unlimited",
        "root     hard nofile   16384",
        "root     soft nofile   16384",
        "root     soft stack    8192",
    ]


@given(lines=own(), names=st.just(["*", "root"]) | NAMES)
def test_it_reads_back(lines: OwnLines, names: list[str]) -> None:
    """What the fact reads from the file is what was asked for, for each name, and nothing else."""
    numbered = enumerate(content(lines, names).splitlines(), 1)
    text = "\n".join(f"/f.conf:{number}:{row}" for number, row in numbered if row[:1] != "#")
    found = [(row.domain, row.kind, row.item, row.value) for row in parse_files(text)]
    wanted = {(name, *key, value) for name in names for key, value in lines.items()}
    assert set(found) == wanted
    assert len(found) == len(names) * len(lines)


@given(lines=own(), names=NAMES)
def test_its_shape(lines: OwnLines, names: list[str]) -> None:
    """Comments first, then four fields a line, all ASCII, and a line end after the last."""
    text = content(lines, names)
    head, rows = text.splitlines()[:2], text.splitlines()[2:]
    assert text.endswith("\n") and text.isascii()
    assert all(row.startswith("# ") for row in head)
    assert all(len(row.split()) == 4 for row in rows)


@pytest.mark.parametrize("order", [1, -1])
def test_the_order_asked_in_does_not_matter(order: int) -> None:
    """The same limits give the same bytes, so a second run finds nothing to do."""
    pairs = [(("soft", "stack"), 1024), (("hard", "nofile"), 5), (("soft", "nofile"), 4)]
    lines: OwnLines = dict(pairs[::order])  # type: ignore[arg-type]
    assert content(lines, ["*"]).splitlines()[2:] == [
        "*        hard nofile   5",
        "*        soft nofile   4",
        "*        soft stack    1",
    ]


def test_a_higher_line_of_others_stays() -> None:
    """What another file gives to all users is not lowered for them by what root lacks."""
    lines: OwnLines = {("soft", "nofile"): 131072, ("hard", "nofile"): 131072}
    assert content(lines, ["*", "root"], {("*", "hard", "nofile")}).splitlines()[2:] == [
        "*        soft nofile   131072",
        "root     hard nofile   131072",
        "root     soft nofile   131072",
    ]


def test_what_our_drop_in_of_slurmd_gives_stays() -> None:
    """A second limit that is too low does not take the first one back."""
    pair = {"soft": 131072, "hard": 131072}
    low = {"soft": 65536, "hard": 65536}
    service = Service.model_validate(
        {
            "name": "slurmd",
            "unit": "slurmd.service",
            "limits": {"nofile": pair, "memlock": low, "stack": pair, "nproc": pair},
            "lines": [
                {"path": drop_in("slurmd.service"), "line": 3, "item": "nofile", "value": "131072"},
                {"path": "/lib/systemd/x.conf", "line": 1, "item": "memlock", "value": "64K"},
            ],
        }
    )
    wanted = LimitsWanted(nofile=131072, memlock="unlimited")
    assert text_of(service, wanted).splitlines()[1:] == [
        "[Service]",
        "LimitNOFILE=131072",
        "LimitMEMLOCK=infinity",
    ]

"""Bounds: a section with a value that no honest node has is unreadable, and that section alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import Any, get_args, get_origin

import pytest
from pydantic import ValidationError

from gpu_node.drift.shm.segments import in_words
from gpu_node.facts.driver.gpus import parse_smi
from gpu_node.facts.env.start_files import MOST_LINES, parse_start_file
from gpu_node.facts.nccl.state import parse_environment
from gpu_node.facts.network.state import parse_addresses, parse_links
from gpu_node.facts.probe import bounds
from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.protocol import Reading, Readings, Unreadable
from gpu_node.facts.shm import segments
from gpu_node.facts.shm.state import Usage, parse_container

LONG = "9" * 5000


def _deep(text: str) -> object:
    return bounds.read_json(text)


def _raises(error: Exception) -> Callable[[str], object]:
    def parser(text: str) -> object:
        raise error

    return parser


# A parser, or a library that it calls, may raise any of these on what a node sends. None of them
# may end the report of the other nodes.
RAISED = [
    OverflowError("x"),
    RecursionError(),
    TypeError("x"),
    AttributeError("x"),
    re.error("x"),
    UnicodeEncodeError("utf-8", "\udcff", 0, 1, "x"),
    MemoryError(),
    AssertionError(),
    ZeroDivisionError(),
    StopIteration("x"),
]
UNFIT: dict[str, Callable[[str], Any]] = {
    "a number of 5000 digits": lambda _: int(LONG),
    "more than 64 bits": lambda _: 2**64,
    "less than 64 bits": lambda _: -(2**63) - 1,
    "infinity": lambda _: {"a": [float("inf")]},
    "no number": lambda _: float("nan"),
    "half a character": lambda _: ("a", "\udcff"),
    "half a character alone": lambda _: {"a": ("\udcff",)},
    "half a character in a name": lambda _: {"\ud800": 1},
    "a long text": lambda _: "x" * (bounds.LONGEST + 1),
    "a long text alone": lambda _: [("x" * (bounds.LONGEST + 1),)],
    "many entries": lambda _: [0] * (bounds.MOST_ENTRIES + 1),
    "deep JSON": lambda _: _deep("[" * 100_000 + "]" * 100_000),
    "JSON that is too deep for us": lambda _: _deep("[" * 20 + "]" * 20),
    "JSON with a key twice": lambda _: _deep('{"a": 1, "a": 2}'),
    "JSON with NaN": lambda _: _deep('{"a": NaN}'),
    "JSON with an endless number": lambda _: _deep('{"a": 1e999}'),
    **{type(each).__name__: _raises(each) for each in RAISED},
}


@pytest.mark.parametrize("parser", UNFIT.values(), ids=UNFIT)
def test_what_does_not_fit_makes_its_section_unreadable(parser: Callable[[str], Any]) -> None:
    """Whatever its parser raises, or returns."""
    readings = Readings({"shm.size": Reading(0, "x")})
    assert readings.take("shm.size", parser) is None
    [unread] = readings.unread
    assert unread.section == "shm.size"
    assert len(unread.reason) < 1000
    assert unread.reason.encode()


@pytest.mark.parametrize(
    "value", [0, 2**64 - 1, -(2**63), 1.5, True, None, "ü\n", b"x", ("a", {"b": [1]})], ids=repr
)
def test_what_fits_is_returned_as_it_is(value: object) -> None:
    """Counters of 64 bits, text in any language."""
    readings = Readings({"shm.size": Reading(0, "x")})
    assert readings.take("shm.size", lambda _: value) == value
    assert readings.unread == []


def test_a_state_is_bounded_wherever_it_is_made() -> None:
    """Of facts that a deploy asks for, too."""
    with pytest.raises(ValidationError, match="64 bits"):
        Usage(size=2**70, used=0)


def test_a_state_may_have_a_longest_text_of_its_own() -> None:
    """As a list of files has."""

    class Long(State):
        longest = bounds.LONGEST * 2
        text: str

    assert Long(text="x" * bounds.LONGEST * 2)
    with pytest.raises(ValidationError, match="more than"):
        Long(text="x" * (bounds.LONGEST * 2 + 1))


def _states(state: type[State]) -> Iterator[type[State]]:
    for each in state.__subclasses__():
        yield each
        yield from _states(each)


def _classes(annotation: Any) -> Iterator[Any]:
    yield get_origin(annotation) or annotation
    for each in get_args(annotation):
        yield from _classes(each)


def test_every_collection_of_a_state_is_looked_into() -> None:
    """A value of another kind of collection would have no bounds."""
    annotations = (each.annotation for one in _states(State) for each in one.model_fields.values())
    classes = {each for one in annotations for each in _classes(one) if isinstance(each, type)}
    collections = {each for each in classes if issubclass(each, Collection)}
    assert collections - {str, bytes} <= {*bounds._COLLECTIONS}
    assert {tuple, dict} <= collections


@pytest.mark.parametrize(
    ("seconds", "year"), [(-99999999999999, "1970"), (-1, "1970"), (10**17, "9999")]
)
def test_a_file_of_any_time_is_a_file(seconds: int, year: str) -> None:
    """Any user may touch one with a time that no calendar has; the deploy compares that time."""
    text = f"clock 1758300000 100\nsegment 7 {seconds} 4096 600 1000 nccl-x mallory\n"
    use = segments.parse(f"{text}seen")
    assert use.unused[0].modified == seconds
    assert f"oldest {year}-" in in_words(use, list(use.unused))


def test_lines_of_a_start_file_are_counted_before_they_are_used() -> None:
    """A block from line 1 to line 2**60 is no block."""
    block = "1\t# >>> gpu-node\n{}\t# <<< gpu-node\nlines\t2"
    assert parse_start_file(block.format(2)).blocks
    for number in (2**60, MOST_LINES + 1, 1, 0):
        with pytest.raises(ValueError, match="in order"):
            parse_start_file(block.format(number))


def test_a_mask_of_many_digits_is_a_mask() -> None:
    """What is made of it is one bit."""
    assert parse_container("none " + "f" * 5000).can_mount


@pytest.mark.parametrize(
    ("parser", "line"),
    [
        (parse_smi, "GPU 0000{:04X}:18:00.0"),
        (parse_addresses, "{} eth0 inet 192.0.2.1/24 scope global eth0"),
        (parse_links, "eth{} 1003 up 1500 1000 ethernet"),
    ],
)
def test_a_machine_has_so_many_parts(parser: Callable[[str], Any], line: str) -> None:
    """More of them would take the rules for ever."""
    with pytest.raises(Unreadable):
        parser("code 0\n" * (parser is parse_smi) + "\n".join(map(line.format, range(5000))))


@pytest.mark.parametrize("name", ["wheels", "outside", "twice", "bitsandbytes"])
def test_the_first_wrong_entry_is_enough(name: str) -> None:
    """An error for each of 340 000 took 300 MB, of which 500 characters are shown."""
    with pytest.raises(ValidationError) as error:
        parse_environment(f'{{"{name}": [{"[]," * 1000}0]}}')
    assert error.value.error_count() < 50

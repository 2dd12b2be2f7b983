"""daemon.json of docker: what it sets, and the same text with other values of a few keys."""

import json
import re
from collections.abc import Mapping
from typing import Any

from gpu_node.facts.probe.bounds import read_json

SHM, ULIMITS = "default-shm-size", "default-ulimits"
_BLANK = re.compile(r"[ \t\r\n]*")
_SIZE = re.compile(r"(\d{1,18})(?:\.\d+)?\s*([kmgtp]?)i?b?", re.ASCII)
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}


def values_of(text: str | None) -> dict[str, Any]:
    """Return the keys of daemon.json; none for no file or an empty one.

    ValueError: docker could not read it, or readers would take different values.
    """
    if text is None or not text.strip():
        return {}
    try:
        values = read_json(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON (line {error.lineno})") from error
    if not isinstance(values, dict):
        raise ValueError("it is not a JSON object")
    return values


def ours(text: str) -> str:
    """Return what daemon.json sets of the keys that a deploy writes; the others may be secret."""
    found = {key: value for key, value in values_of(text).items() if key in (SHM, ULIMITS)}
    return json.dumps(found, indent=2)


def size_of(value: object) -> int | None:
    """Return the bytes of a size as docker takes it: a number, or text such as 8G, 64mb, 1GiB."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _SIZE.fullmatch(value.strip().lower()) if isinstance(value, str) else None
    return int(match[1]) << _UNITS[match[2]] if match else None


def soft_limits(value: object) -> dict[str, int]:
    """Return the soft limits of default-ulimits, -1 for unlimited; entries of other form count not.

    Their form: {"nofile": {"Name": "nofile", "Soft": 65536, "Hard": 65536}}.
    """
    entries = value if isinstance(value, dict) else {}
    return {
        name: each["Soft"]
        for name, each in entries.items()
        if isinstance(each, dict) and type(each.get("Soft")) is int
    }


def ulimits(wanted: Mapping[str, int], found: object = None) -> dict[str, Any]:
    """Return default-ulimits with wanted limits, soft and hard, beside those that are found."""
    ours = {name: {"Name": name, "Soft": value, "Hard": value} for name, value in wanted.items()}
    return {**(found if isinstance(found, dict) else {}), **ours}


def with_values(text: str, values: Mapping[str, object]) -> str:
    """Return daemon.json with these values; every other byte stays. ValueError as in `values_of`.

    A new key comes last, spaced as the first one is.
    """
    if not text.strip():
        return json.dumps(dict(values), indent=2) + "\n"
    known = values_of(text)
    for key, value in values.items():
        if known.get(key) == value:
            continue
        written = json.dumps(value)
        spans, first, last = _members(text)
        if key in spans:
            start, end = spans[key]
            text = text[:start] + written + text[end:]
        elif spans:
            text = f"{text[:last]},{first}{json.dumps(key)}: {written}{text[last:]}"
        else:
            end = text.rindex("}")
            text = f"{text[: text.index('{') + 1]}\n  {json.dumps(key)}: {written}\n{text[end:]}"
    return text


def _members(text: str) -> tuple[dict[str, tuple[int, int]], str, int]:
    """Return where each value of an object is, the blanks before its first key, its last end."""
    decoder = json.JSONDecoder()
    spans: dict[str, tuple[int, int]] = {}
    at = last = text.index("{") + 1
    first = _blank(text, at)
    at += len(first)
    while text[at] != "}":
        key, at = decoder.raw_decode(text, at)
        at += len(_blank(text, at)) + 1  # the colon
        at += len(_blank(text, at))
        _, end = decoder.raw_decode(text, at)
        spans[key], last = (at, end), end
        at = end + len(_blank(text, end))
        if text[at] == ",":
            at += 1 + len(_blank(text, at + 1))
    return spans, first, last


def _blank(text: str, at: int) -> str:
    match = _BLANK.match(text, at)
    return match[0] if match else ""

"""Keys of a node's data that were probably meant for gpu-node: no other program may want them."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

from gpu_node.inventories.errors import Problem, quoted, shown

# As near as `shm_siz` is; `docker_version`, which another deploy may have, is not.
_NEAR = 0.88


def misspelt(
    data: Mapping[str, Any], known: tuple[str, ...], sections: tuple[str, ...]
) -> Iterator[Problem]:
    """Yield keys near one of `known`, and a section of a cluster file in place of its flat keys."""
    for key, value in data.items():
        if key in known or not isinstance(key, str):
            continue
        if key in sections and isinstance(value, dict):
            flat = [each for each in known if each.startswith(f"{key}_")]
            yield Problem((key,), shown(value), "only a cluster file has sections", ", ".join(flat))
        elif near := _nearest(key, known):
            yield Problem((key,), quoted(key), f"no such key, did you mean {near}?", near)


@cache
def _nearest(key: str, known: tuple[str, ...]) -> str:
    """Return the key that was meant: also in another notation, such as shm-size; or nothing."""
    plain = key.lower().replace("-", "_")
    for each in known:
        if each.replace("_", "") == plain.replace("_", ""):
            return each
    return next(iter(get_close_matches(plain, known, n=1, cutoff=_NEAR)), "")

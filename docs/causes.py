"""Writes docs/reference/causes.md: every cause of `gpu-node diagnose`, by its file.

`python docs/causes.py` writes it again; a test fails when it does not match diagnose/causes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from gpu_node.diagnose.cause import PREFIX, Cause, causes

PAGE = Path(__file__).parent / "reference" / "causes.md"
_HEAD = """\
# Causes of failed jobs

What [gpu-node diagnose](../how-to/failed-job.md) knows. `gpu-node explain {prefix}NAME` prints one
of them, with the texts by which it is known. A symptom is an answer only where the log shows none
of its causes; consequences, such as a broken pipe, are never an answer and are not listed.

`docs/causes.py` writes this page; do not edit it."""
# An underscore within a word is none.
_MARKUP = re.compile(r"[<*\[\\]|(?<!\w)_|_(?!\w)")
_SIDES = {"machines": "Your machines", "code": "Your code", "neither": "A person"}


def page() -> str:
    """Return the page as Markdown."""
    parts = [_HEAD.format(prefix=PREFIX)]
    for side, heading in _SIDES.items():
        parts.append(f"## {heading}")
        parts += [
            "\n".join(_section(each))
            for each in causes().values()
            if each.side == side and each.level != "consequence"
        ]
    return "\n\n".join(parts) + "\n"


def _section(cause: Cause) -> Iterator[str]:
    yield f"### {cause.name}"
    yield ""
    yield f"{'A symptom: ' if cause.level == 'symptom' else ''}{cause.says}."
    yield ""
    if cause.confirm:
        yield f"- confirm: {_plain(cause.confirm)}"
    if cause.remedy:
        yield f"- do: {_plain(cause.remedy)}"
    if cause.rules:
        yield f"- rules: {', '.join(map(_rule, cause.rules))}"
    if cause.source:
        yield f"- source: {cause.source}"


def _rule(name: str) -> str:
    """Return a link to a rule; docs/rules.md has no section for AREA.unreadable."""
    if name.endswith(".unreadable"):
        return f"`{name}`"
    return f"[{name}](../rules.md#{name.replace('.', '')})"


def _plain(text: str) -> str:
    """Return text in which nothing is markup but code in backquotes."""
    return _MARKUP.sub(r"\\\g<0>", text)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

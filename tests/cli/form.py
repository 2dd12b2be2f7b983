"""The form of all errors: `gpu-node: [FILE:LINE: ][KEY: ]found ...; allowed: ...; next: ...`."""

from __future__ import annotations

import re

PROBLEM = re.compile(
    r"gpu-node: "
    r"(?:[^:]*\.(?:yml|yaml|py|csv|YML)(?::[1-9]\d*)?: )?"  # FILE:LINE
    r"(?:[^ ].*?: )??"  # KEY
    r"found \S.*?"
    r"(?:; allowed: \S.*?)?"
    r"(?:; next: \S.*)?"
)
# What else is on stderr: stages of an onboarding and their remarks, the progress of pyinfra, the
# help of a command without its command, and how many lines are left out.
_OTHER = re.compile(
    r"== .*|--> .*|  +\S.*|Usage: .*|(?:Options|Commands):|\.\.\. \(\d+ more lines\)|"
)


def assert_in_form(err: str) -> list[str]:
    """Return the problems of an error, one a line, of which there is at least one."""
    problems = [line for line in err.splitlines() if line.startswith("gpu-node: ")]
    for line in err.splitlines():
        assert (PROBLEM if line in problems else _OTHER).fullmatch(line), line
        assert line.count("; allowed: ") <= 1 and line.count("; next: ") <= 1, line
        order = [line.find(part) for part in ("found ", "; allowed: ", "; next: ")]
        assert [each for each in order if each >= 0] == sorted(each for each in order if each >= 0)
    return problems

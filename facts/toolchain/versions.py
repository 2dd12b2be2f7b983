"""The CUDA toolkit, gcc and Python that a build on the node would use."""

import re

from gpu_node.facts.probe import checked, owner
from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.protocol import Section, Unreadable
from gpu_node.facts.probe.shell import shell

NAME = "toolchain.versions"
SECTION = Section(NAME, shell("toolchain/versions"), seconds=15, shared=(owner.SHARED,))
_KINDS = ("cuda", "gcc", "python3")
# cuda.h has 12010 for 12.1; gcc --version begins with its name and, in brackets, its packager.
_NUMBER = re.compile(r"number (\d{4,6})")
_VERSIONS = {
    "cuda": re.compile(r"(\d{1,3}\.\d{1,3})(?:\.\d+)*"),
    "gcc": re.compile(r"\S+ \([^)]*\) (\d{1,3}(?:\.\d{1,3}){1,2})\b.*"),
    "python3": re.compile(r"Python (\d\.\d{1,3}(?:\.\d{1,3})?)\S*"),
}


class Program(State):
    """A tool in the PATH of a launcher's shell, and its version; None: `output` shows none.

    Of the CUDA toolkit, `path` is its folder, and the version has two numbers (12.1).
    """

    path: str
    version: str | None
    output: str


class Versions(State):
    """The tools that were found; None: there is none in PATH."""

    cuda: Program | None = None
    gcc: Program | None = None
    python3: Program | None = None


def parse(text: str) -> Versions:
    """Parse lines `KIND<tab>PATH<tab>OUTPUT`, one at most of a kind."""
    programs: dict[str, Program] = {}
    for line in lines_of(text):
        kind, path, output = [*line.split("\t", 2), "", ""][:3]
        if kind not in _KINDS or kind in programs:
            raise Unreadable(f"not a line about a tool: {line[:60]!a}")
        version = _version(kind, output)
        programs[kind] = Program(path=checked.path(path), version=version, output=output[:200])
    return Versions(**programs)


def _version(kind: str, output: str) -> str | None:
    if kind == "cuda" and (number := _NUMBER.fullmatch(output)):
        return f"{int(number[1]) // 1000}.{int(number[1]) % 1000 // 10}"
    match = _VERSIONS[kind].fullmatch(output)
    return match[1] if match else None

"""Words that a shell splits or expands: each script has them at lines that say why, or nowhere."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from tests.facts.test_probe_syntax import EXCLUDED
from tests.facts.test_probe_syntax import ROOMS as SYNTAX_ROOMS

REPOSITORY = Path(__file__).parents[1]
ROOMS = ("bench", "deploy", "facts", "history", "inventories", "lab", "onboarding", "verify")
# Words of a variable, of a command, and of all arguments, without quotes around them.
CODES = ("SC2086", "SC2046", "SC2048", "SC2068")
DIRECTIVE = re.compile(
    r"\s*# shellcheck (shell=\w+ )?disable=(?P<codes>[SC0-9,]*)(?P<reason>\s*# ?\S.*)?"
)
FIRST_LINE = re.compile(r"#!.*\b(sh|bash)\n")


def scripts() -> list[Path]:
    """Return the scripts of the product and of the lab."""
    files = [file for room in ROOMS for file in (REPOSITORY / room).rglob("*") if file.is_file()]
    return sorted(file for file in files if file.suffix == ".sh" or is_script(file))


def is_script(file: Path) -> bool:
    """Whether a file without a suffix begins as a script does."""
    return not file.suffix and bool(FIRST_LINE.match(file.read_text(errors="replace")[:80]))


def without_exceptions(text: str) -> str:
    """Return a script whose exceptions for these words are plain comments."""
    return "\n".join("#" if exempts(line) else line for line in text.split("\n"))


def exempts(line: str) -> bool:
    match = DIRECTIVE.fullmatch(line)
    return bool(match) and any(code in line for code in CODES)


def unquoted(files: dict[Path, str], folder: Path) -> dict[Path, set[int]]:
    """Return the first line of each command that has such a word, by script."""
    copies = {}
    for number, (file, text) in enumerate(files.items()):
        copies[str(folder / f"{number}.sh")] = file
        (folder / f"{number}.sh").write_text(without_exceptions(text))
    words = ["shellcheck", "-s", "sh", "-i", ",".join(CODES), "-f", "json", *copies]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1) and done.stderr == "", done
    found: dict[Path, set[int]] = {file: set() for file in files}
    for each in json.loads(done.stdout):
        file = copies[each["file"]]
        lines = files[file].split("\n")
        number = each["line"] - 1
        while number and lines[number - 1].endswith("\\"):
            number -= 1
        found[file].add(number)
    return found


def offenders(files: dict[Path, str], folder: Path) -> list[str]:
    """Return what has no exception, and the exceptions for more, or less, than one command."""
    offenders = []
    for file, commands in unquoted(files, folder).items():
        lines = files[file].split("\n")
        exempted = {number + 1 for number, line in enumerate(lines) if exempts(line)}
        offenders += [f"{file}:{each + 1}: words without quotes" for each in commands - exempted]
        offenders += [f"{file}:{each}: is for no such word" for each in exempted - commands]
        for each in exempted & commands:
            match = DIRECTIVE.fullmatch(lines[each - 1])
            if match is None or not match["reason"]:
                offenders.append(f"{file}:{each}: gives no reason")
            if all(not line or line.lstrip().startswith("#") for line in lines[: each - 1]):
                offenders.append(f"{file}:{each}: is for the whole file")
    return offenders


def test_words_are_in_quotes(tmp_path: Path) -> None:
    """A name with a blank, a newline or a `*` is one word; an exception has its line and reason."""
    files = {file.relative_to(REPOSITORY): file.read_text() for file in scripts()}
    assert len(files) > 180
    # tests/facts/test_probe_syntax.py reads the scripts of the other rooms that have no exception.
    assert not {*CODES} & {*EXCLUDED.split(",")}
    read = {
        file: text
        for file, text in files.items()
        if file.parts[0] not in SYNTAX_ROOMS or any(map(exempts, text.split("\n")))
    }
    assert offenders(read, tmp_path) == []


def test_what_offends(tmp_path: Path) -> None:
    """A word without quotes, and an exception for a file, for a block, or without a reason."""
    texts = {
        "plain": ": x\nrm $1\n",
        "command": ": x\nrm $(ls)\n",
        "all": ": x\nrm $@\n",
        "file": "# shellcheck disable=SC2086 # words\nrm $1\nrm $2\n",
        "head": "# shellcheck shell=sh disable=SC2034,SC2086 # words\nrm $1\nrm $2\n",
        "first": "# shellcheck disable=SC2086 # words\nrm $1\n",
        "block": ": x\n# shellcheck disable=SC2086 # words\n{\n  rm $1\n}\n",
        "mute": ": x\n# shellcheck disable=SC2086\nrm $1\n",
        "unused": ": x\n# shellcheck disable=SC2086 # words\nrm x\n",
        "right": ": x\n# shellcheck disable=SC2034,SC2086 # words\nrm \\\n  $1\n",
    }
    found = offenders({Path(name): text for name, text in texts.items()}, tmp_path)
    assert sorted(found) == [
        "all:2: words without quotes",
        "block:2: is for no such word",
        "block:4: words without quotes",
        "command:2: words without quotes",
        "file:1: is for the whole file",
        "file:3: words without quotes",
        "first:1: is for the whole file",
        "head:1: is for the whole file",
        "head:3: words without quotes",
        "mute:2: gives no reason",
        "plain:2: words without quotes",
        "unused:2: is for no such word",
    ]

"""Each command line of the pages is known, and its options exist.

tests/e2e/test_docs.py runs them on the lab.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from textwrap import indent

import click
import jsonschema
import pytest
import yaml

from docs import schema
from gpu_node.cli.commands import NAMES, commands
from gpu_node.inventories.schema import load
from tests.docs.pages import PAGES, Line, blocks, command_lines, known, name, words

LINES = known()
ALL = [line for lines in LINES.values() for line in lines]
ROOT = Path(__file__).parents[2]
HOSTS = """
groups: {a100: {}}
hosts:
  a100-01: {address: 10.0.0.4, group: a100}
  v100-01: {address: 10.0.0.5}
"""
SNIPPETS = [(page, text) for page in PAGES for text in blocks(page, "yaml")]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_each_line_is_known(page: Path) -> None:
    """commands.yml has the lines of a page in their order: how each is run, or why it is not."""
    assert [each.line for each in LINES.get(name(page), [])] == command_lines(page)


def test_no_page_is_left_behind() -> None:
    """A page that is gone has no lines."""
    assert {*LINES} <= {name(page) for page in PAGES}


@pytest.mark.parametrize("line", ALL, ids=lambda line: f"{line.page}: {line.line}")
def test_its_options_exist(line: Line) -> None:
    """As written, and as it is run; what is not run has a reason."""
    assert not line.not_run or len(line.not_run) > 10
    for text in {line.line, line.run}:
        found = [each for each in words(text) if each != "$INIT"]
        if found not in ([], ["--version"]):
            parse(found)


@pytest.mark.parametrize("page", ["rules.md", "reference/causes.md"])
def test_advice_names_commands_that_exist(page: str) -> None:
    """What rules and causes advise, whose texts these pages have."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    named = re.findall(r"gpu-node ([a-z-]+) (?:[A-Z]{3,}|--|\w+/)", text)
    assert named and {*named} - {*NAMES, "with"} == set()


def parse(found: list[str], group: click.Group = commands) -> None:
    """Parse the words behind gpu-node; click.UsageError: there is no such option or argument."""
    context = click.Context(group, info_name="gpu-node")
    command = group.get_command(context, found[0])
    assert command is not None, found[0]
    if isinstance(command, click.Group):
        parse(found[1:], command)
        return
    inner = click.Context(command, context, found[0])
    _, left, _ = command.make_parser(inner).parse_args(found[1:])
    assert left == [], left


@pytest.mark.parametrize(
    ("page", "text"), SNIPPETS, ids=[f"{page.stem}-{text[:20]}" for page, text in SNIPPETS]
)
def test_each_block_of_a_cluster_file_is_accepted(page: Path, text: str, tmp_path: Path) -> None:
    """It is a whole file, or what a level has; an editor's schema accepts it as well."""
    whole = text
    if "\nhosts:" not in text:
        whole = f"cluster: page\ndefaults:\n{indent(text, '  ')}{HOSTS}"
    (tmp_path / "known_hosts").touch()
    (tmp_path / "cuda.asc").write_text("-----BEGIN PGP PUBLIC KEY BLOCK-----\n")
    (tmp_path / "site.yml").write_text(whole)
    load(tmp_path / "site.yml")
    # An editor reads a day as text.
    as_text = json.loads(json.dumps(yaml.safe_load(whole), default=str))
    jsonschema.validate(as_text, schema.cluster())

"""The pages as a site: a browser asks no other host for anything; the forge shows them as well."""

from __future__ import annotations

import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typing_extensions import override

from tests.docs.pages import DOCS, PAGES, REPOSITORY, name
from tests.lanes import MKDOCS

ALL = [*sorted(DOCS.rglob("*.md"))]
# Attributes by which a browser loads something without a click.
LOADING = {("link", "href"), ("object", "data"), ("use", "href")}
# What a forge shows as text: admonitions, tabs, attributes, snippets, front matter, icons.
NOT_PLAIN = re.compile(
    r"^(?:!!!|\?\?\?|=== \"|--8<--|---\n)|\{:? ?[.#][\w-]+|:(?:material|octicons)-", re.MULTILINE
)
# A page of paper has some 600 words.
MOST_WORDS = 600


class _Loaded(HTMLParser):
    """Collects what a page of the site loads, and the components of the theme that ask others."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if key in ("src", "srcset") or (tag, key) in LOADING:
                self.found.append(value or "")
            # The theme's source of a repository asks its forge; mermaid is loaded from elsewhere.
            if value and (value == "source" or "mermaid" in value.split()):
                self.found.append(f"//{value}")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; a page outside of the contents, or a link to nothing, is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [*MKDOCS, "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return folder


def test_it_asks_no_other_host(site: Path) -> None:
    """No font, script, style or image is another host's."""
    for page in site.rglob("*.html"):
        parser = _Loaded()
        parser.feed(page.read_text("utf-8"))
        assert parser.found
        foreign = [each for each in parser.found if re.match(r"(?:\w+:)?//", each)]
        assert foreign == [], page
    for style in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?(?:https?:)?//|@import", style.read_text("utf-8")), style


def test_it_has_each_page_and_what_pages_link_to(site: Path) -> None:
    """Files of the repository as well; what makes the pages is left out."""
    made = {str(each.relative_to(site).with_suffix(".md")) for each in site.rglob("*.html")}
    assert {str(page.relative_to(DOCS)) for page in ALL} <= made
    assert (site / "repository" / "inventories" / "lab.yml").is_file()
    assert (site / "examples" / "gpu-node-drift.timer").is_file()
    assert not [*site.rglob("*.pyc")] and not [*site.glob("*.py")]


@pytest.mark.parametrize("page", ALL, ids=name)
def test_a_page_is_plain_markdown(page: Path) -> None:
    """The forge shows it as the site does."""
    text = page.read_text("utf-8")
    assert NOT_PLAIN.search(re.sub(r"(?ms)^```.*?^```$", "", text)) is None
    assert text.startswith("# ")


@pytest.mark.parametrize("page", PAGES[2:], ids=name)
def test_a_how_to_is_a_page_at_most(page: Path) -> None:
    """An engineer in a hurry reads it."""
    assert len(page.read_text("utf-8").split()) <= MOST_WORDS

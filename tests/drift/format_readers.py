"""Reads each format as a program of its users does: how many problems it has, and which texts.

A reader fails where a format is not well-formed, or has markup that is not the report's own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from itertools import pairwise

import junitparser
from markdown_it import MarkdownIt
from prometheus_client.parser import text_string_to_metric_families
from typing_extensions import override

from gpu_node.drift.report.formats import SUFFIXES

# Void elements have no end; of all others each has one.
VOID = {"meta", "input"}
ELEMENTS = {
    *("html", "head", "meta", "title", "style", "body", "header", "h1", "h2", "h3", "p", "code"),
    *("div", "input", "output", "button", "main", "details", "summary", "span", "dl", "dt", "dd"),
    *("pre", "table", "tr", "th", "td", "ul", "li", "script", "a", "bdi"),
}
ATTRIBUTES = {
    *("lang", "charset", "http-equiv", "content", "name", "class", "role", "hidden", "id", "type"),
    *("aria-label", "placeholder", "for", "data-names", "data-places", "open", "scope"),
    "href",
}


class Html(HTMLParser):
    """The elements of a page, in which each that was begun ends."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ELEMENTS and {name for name, _ in attrs} <= ATTRIBUTES, (tag, attrs)
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    @override
    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def html(text: str) -> int:
    """Count the problems of a page; its one script and its one style are the page's own."""
    page = Html(text)
    tags = [tag for tag, _ in page.elements]
    assert (tags.count("script"), tags.count("style"), tags.count("main")) == (1, 1, 1)
    classes = [(attributes.get("class") or "").split() for _, attributes in page.elements]
    return sum("problem" in each for each in classes)


def markdown(text: str) -> int:
    """Count the items that are problems; texts are code, in which no link and no mention counts."""
    tokens = MarkdownIt("commonmark").parse(text)
    blocks = [each.content.strip() for each in tokens if each.type == "html_block"]
    assert blocks == ["<details><summary>Facts</summary>", "</details>"]
    inline = [child for each in tokens for child in each.children or ()]
    kinds = {each.type for each in inline}
    assert kinds <= {"text", "code_inline", "strong_open", "strong_close", "softbreak"}, kinds
    plain = "".join(each.content for each in inline if each.type == "text")
    assert not re.search(r"[@#<>|\[\]]|//|www", plain), plain
    return sum(
        each.content in ("error", "warning", "info")
        for before, each in pairwise(inline)
        if before.type == "strong_open"
    )


def junit(text: str) -> int:
    """Count the cases that fail; the numbers of each suite are those of its cases."""
    suites = junitparser.JUnitXml.fromstring(text.encode())
    failed = 0
    for suite in suites:
        counted = (suite.tests, suite.failures, suite.errors)
        results = [type(result) for case in suite for result in case.result]
        wrong = [results.count(each) for each in (junitparser.Failure, junitparser.Error)]
        assert (len(list(suite)), *wrong) == counted
        failed += sum(wrong)
    assert failed == suites.failures + suites.errors
    return failed


def prometheus(text: str) -> int:
    """Return how many problems the metrics count; each has a help, a type and no timestamp."""
    total = 0
    for family in text_string_to_metric_families(text):
        assert family.documentation and family.type == "gauge"
        for sample in family.samples:
            assert sample.timestamp is None and "inventory" in sample.labels
            total += int(sample.value) if family.name == "gpu_node_problems" else 0
    return total


def of_json(text: str) -> int:
    """Count the findings."""
    return sum(len(host["findings"]) for host in json.loads(text)["hosts"].values())


def table(text: str) -> int:
    """Count the lines that end with who repairs a problem, and with its findings."""
    return len(re.findall(r" (?:deploy|manual|partly) +\d+$", text, re.MULTILINE))


READERS: dict[str, Callable[[str], int]] = {
    "table": table,
    "json": of_json,
    "markdown": markdown,
    "junit": junit,
    "prometheus": prometheus,
    "html": html,
}
assert READERS.keys() == {*SUFFIXES.values()}

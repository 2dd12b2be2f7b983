"""The page of a report in a browser: search, folds, colours, widths; it asks nothing of anyone."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_node.cli.reporting import write
from gpu_node.drift.report.view import View
from tests import chromium
from tests.drift import reports, states
from tests.drift.test_formats import MARKUP, odd

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which(chromium.PROGRAM), reason="no chromium on this machine"),
]
NODES = {f"gpu-{number:02}": states.seen(reports.FRESH) for number in range(20)}
# The words of the page that are on two lines, but for very long ones.
BROKEN = r"""(() => {
  const found = [], texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode;
    if (node.parentElement.closest("script") || !node.parentElement.checkVisibility()) continue;
    for (const { 0: word, index } of node.data.matchAll(/(?<!\S)\S{2,28}(?!\S)/g)) {
      const range = document.createRange();
      range.setStart(node, index);
      range.setEnd(node, index + word.length);
      const lines = [...range.getClientRects()].map((each) => Math.round(each.top));
      if (new Set(lines).size > 1) found.push(word);
    }
  }
  return found;
})()"""
LONG = {f"train-gpu-node-{number:02}": states.seen(reports.FRESH) for number in (1, 2, 4)}
SHOWN = "[...document.querySelectorAll('{}')].filter((e) => e.checkVisibility())"
# Texts of each colour, on each background.
COLOURED = (
    *("body", ".head", ".dim", "summary", "summary .severity.error", ".unread .severity", "dt"),
    *(".finding .severity.error", ".finding .severity.warning", ".wrong", "input", "button", "th"),
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the pages of a report, and of one whose words are all markup."""
    folder = tmp_path_factory.mktemp("pages")
    made = {
        "plain": reports.report({**NODES, **reports.THREE}),
        "odd": odd(reports.report(reports.KINDS), MARKUP),
        "names": reports.report({**LONG, **reports.THREE}),
    }
    for name, report in made.items():
        write(View(report), "html", str(folder / f"{name}.html"))
    return {name: folder / f"{name}.html" for name in made}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Page]:
    with chromium.page(tmp_path_factory.mktemp("chromium")) as shown:
        yield shown


def ids(page: chromium.Page) -> list[str]:
    """Return the problems that are shown."""
    shown = SHOWN.format(".problem > summary > .rule")
    found: list[str] = page.value(f"{shown}.map((e) => e.textContent)")
    return found


def facts(page: chromium.Page) -> dict[str, str]:
    """Return the facts that are shown, with their values."""
    shown = SHOWN.format("li")
    pairs = f"{shown}.map((e) => [e.closest('tr').firstElementChild.textContent, e.innerText])"
    found: dict[str, str] = page.value(f"Object.fromEntries({pairs})")
    return found


def search(page: chromium.Page, words: str) -> None:
    page.value("document.querySelector('#search').focus()")
    page.type(words)


@pytest.mark.parametrize("name", ["plain", "odd"])
def test_no_request_leaves_the_page(page: chromium.Page, files: dict[str, Path], name: str) -> None:
    """Nor can a script of it send one; nothing of it is refused, and no other script runs."""
    page.show(files[name])
    asked = [each["request"]["url"] for each in page.of("Network.requestWillBeSent")]
    assert asked == [files[name].as_uri()]
    assert page.value("!document.querySelector('.search').hidden")
    assert page.of("Log.entryAdded") == page.of("Runtime.exceptionThrown") == []
    assert page.of("Page.javascriptDialogOpening") == []
    others = "img, a:not([href^='#rule-']), iframe, b"
    assert page.value(f'document.querySelectorAll("{others}").length') == 0
    sent = page.value("fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')")
    refused = [each["entry"]["text"] for each in page.of("Log.entryAdded")]
    assert sent == "refused" and any("Content Security Policy" in each for each in refused)


def test_search_finds_rules_values_and_nodes(page: chromium.Page, files: dict[str, Path]) -> None:
    """A node is found in a range that does not spell its name."""
    page.show(files["plain"])
    every = ids(page)
    search(page, "nofile")
    assert ids(page) == ["limits.nofile"] and "limits.nofile" in facts(page)
    assert page.value("found.textContent").startswith("1 problems, ")
    search(page, "gpu-07 shm.size")
    assert ids(page) == [] and re.match(r"64M ✗ on .*gpu-\[00-19\]", facts(page)["shm.size"])
    search(page, "gpu-07")
    assert {"shm.too-small", "limits.nofile"} == {*ids(page)} < {*every}
    search(page, "refused (192.0.2.12")
    assert ids(page) == [] and page.value(f"{SHOWN.format('.unread')}.length") == 1
    search(page, "")
    assert ids(page) == every and page.value("found.textContent") == ""


def test_it_folds(page: chromium.Page, files: dict[str, Path]) -> None:
    """A problem opens by a click on its line, all of them by a button, and all for a printer."""
    page.show(files["plain"])
    opened = "[...document.querySelectorAll('.problem')].map((e) => e.open)"
    count = len(page.value(opened))
    assert page.value(f"{SHOWN.format('dd')}.length") == 0
    page.value("document.querySelector('.problem > summary').click()")
    assert page.value(opened) == [True, *[False] * (count - 1)]
    assert "mount -o remount" in page.value(f"{SHOWN.format('dd')}.map((e) => e.innerText).join()")
    page.value("dispatchEvent(new Event('beforeprint'))")
    assert page.value(opened) == [True] * count
    page.value("dispatchEvent(new Event('afterprint'))")
    assert page.value(opened) == [True, *[False] * (count - 1)]
    page.value("document.querySelector('#unfold').click()")
    assert page.value(opened) == [True] * count
    page.value("document.querySelector('#fold').click()")
    assert page.value(opened) == [False] * count


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["plain", "odd"])
def test_it_is_as_wide_as_the_window(
    page: chromium.Page, files: dict[str, Path], name: str, width: int
) -> None:
    """With all unfolded: no person scrolls sideways."""
    page.show(files[name], width)
    page.value("document.querySelector('#unfold').click()")
    assert page.value("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [390, 1200])
def test_no_name_is_broken_in_two(page: chromium.Page, files: dict[str, Path], width: int) -> None:
    """One that has room in a line is in one line, also where it has hyphens or slashes."""
    page.show(files["names"], width)
    page.value("document.querySelector('#unfold').click()")
    assert page.value("document.body.innerText.includes('train-gpu-node-[01-02,04]')")
    assert page.value(BROKEN) == []


def test_a_rule_leads_to_its_text(page: chromium.Page, files: dict[str, Path]) -> None:
    """It is on the page: what it checks, why, and what repairs it; it unfolds for the link."""
    page.show(files["plain"])
    text = "document.getElementById('rule-shm.too-small')"
    assert not page.value(f"{text}.checkVisibility()")
    page.value("document.querySelector('.problem').open = true")
    page.value("document.querySelector('.finding a[href=\"#rule-shm.too-small\"]').click()")
    assert page.value(f"{text}.checkVisibility()")
    assert "/dev/shm is smaller than" in page.value(f"{text}.innerText")


def test_the_words_beside_a_problem_are_explained(
    page: chromium.Page, files: dict[str, Path]
) -> None:
    """Those that occur: who repairs it, and whether it stops a job."""
    page.show(files["plain"])
    shown = page.value("document.querySelector('main').innerText")
    for words in ("deploy: gpu-node deploy repairs it", "manual: you do", "stops a job: no job"):
        assert words in shown
    assert "(repair: deploy; stops a job)" in shown and "admin:" not in shown


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_its_text_can_be_read(page: chromium.Page, files: dict[str, Path], scheme: str) -> None:
    """Each text has the contrast with its background that WCAG 2.2 asks for (AA, 1.4.3: 4.5)."""
    page.show(files["plain"], scheme=scheme)
    page.value("document.querySelector('#unfold').click()")
    assert (luminance(colours(page, "body")[1]) > 0.5) is (scheme == "light")
    for each in COLOURED:
        light, dark = sorted(map(luminance, colours(page, each)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, each


def colours(page: chromium.Page, selector: str) -> tuple[str, str]:
    """Return the colours of an element and of what is behind it, as the browser computes them."""
    found: list[str] = page.value(
        f"""(() => {{
          const element = document.querySelector('{selector}');
          let back = element;
          const of = (e) => getComputedStyle(e).backgroundColor;
          while (of(back) === 'rgba(0, 0, 0, 0)') back = back.parentElement;
          return [getComputedStyle(element).color, of(back)];
        }})()"""
    )
    return found[0], found[1]


def luminance(colour: str) -> float:
    """Return the relative luminance of rgb(R, G, B), as WCAG defines it."""
    parts = [int(each) / 255 for each in re.findall(r"\d+", colour)[:3]]
    linear = [
        each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts
    ]
    return sum(share * each for share, each in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

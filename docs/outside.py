"""A hook of mkdocs: the site gets the files of the repository that a page links to.

On the forge, a link such as ../inventories/lab.yml leaves docs/; a site has nothing there.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

REPOSITORY = Path(__file__).parents[1]
# Where these files are in the site.
_FOLDER = "repository"
_LINK = re.compile(r"(?<=\]\()(\.\./[^)#\s]+)(?=[)#])")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add each file outside of docs/ that a page links to."""
    for page in files.documentation_pages():
        for link in _LINK.findall(page.content_string):
            path = _outside(page.src_uri, link)
            if path and not files.get_file_from_path(target := f"{_FOLDER}/{path}"):
                files.append(File.generated(config, target, abs_src_path=str(REPOSITORY / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let the page's links to such files lead to where the site has them."""
    source = page.file.src_uri

    def moved(match: re.Match[str]) -> str:
        path = _outside(source, match[1])
        start = str(PurePosixPath(source).parent)
        return posixpath.relpath(f"{_FOLDER}/{path}", start) if path else match[1]

    return _LINK.sub(moved, markdown)


def _outside(source: str, link: str) -> str:
    """Return the path in the repository that a link of docs/SOURCE has, if it leaves docs/.

    Empty for one that stays, and for a page: a link to it has to be mended, which mkdocs reports.
    """
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(source), link))
    leaves = not path.startswith("docs/") and (REPOSITORY / path).is_file()
    return path if leaves and not path.endswith(".md") else ""

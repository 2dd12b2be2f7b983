"""The picture in the README is the recorded report, drawn by the code as it is now."""

from __future__ import annotations

from docs import picture


def test_the_picture_is_current() -> None:
    """The picture must show the present report; `make picture` updates it."""
    assert picture.PICTURE.read_text(encoding="utf-8") == picture.draw()


def test_the_picture_asks_no_other_host_for_anything() -> None:
    """No font or script is loaded from elsewhere when a browser shows the README."""
    drawn = picture.draw().replace("http://www.w3.org/2000/svg", "")
    assert "http" not in drawn and "url(" not in drawn.replace("url(#", "")


def test_the_readme_shows_it() -> None:
    """The README's picture is this file."""
    readme = (picture.HERE.parent / "README.md").read_text(encoding="utf-8")
    assert f"docs/{picture.PICTURE.name}" in readme

"""The journal: kept whole, for one inventory, and no obstacle where it is broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from onboarding import journal
from onboarding.journal import Journal
from onboarding.site import Site, site_of
from onboarding.stopped import Stopped

BEGUN = Journal(name="v100-02", address="192.0.2.12", user="root", port=22)


def at(folder: Path) -> Site:
    """An inventory in a folder of its own."""
    folder.mkdir()
    for name in ("site.yml", "site.py"):
        (folder / name).write_text("")
    return site_of(str(folder / "site.yml"))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return at(tmp_path / "here")


def test_what_is_written_is_read(site: Site) -> None:
    assert journal.read(site, "v100-02") is None
    journal.write(site, BEGUN.with_stage("mesh", "sum"))
    found = journal.read(site, "v100-02")
    assert found is not None and found.done == ("mesh",)
    journal.forget(site, "v100-02")
    journal.forget(site, "v100-02")
    assert journal.read(site, "v100-02") is None


def test_another_inventory_has_its_own(site: Site, tmp_path: Path) -> None:
    journal.write(site, BEGUN)
    assert journal.read(at(tmp_path / "there"), "v100-02") is None


def test_it_is_nobody_elses_to_read(site: Site, tmp_path: Path) -> None:
    journal.write(site, BEGUN)
    (file,) = (tmp_path / "state").rglob("*.json")
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("text", ["", "{", '{"name": "v100-02"}', "\xff"])
def test_a_broken_one_is_none(site: Site, tmp_path: Path, text: str) -> None:
    journal.write(site, BEGUN)
    (file,) = (tmp_path / "state").rglob("*.json")
    file.write_text(text, encoding="latin-1")
    assert journal.read(site, "v100-02") is None


def test_one_of_before_tells_of_no_pin(site: Site, tmp_path: Path) -> None:
    """It was written when nobody noted who had pinned the host key: that is kept."""
    journal.write(site, BEGUN)
    (file,) = (tmp_path / "state").rglob("*.json")
    file.write_text(file.read_text().replace(',"pinned":[]', ""))
    assert "pinned" not in file.read_text() and journal.read(site, "v100-02") == BEGUN


def test_a_name_is_no_path(site: Site, tmp_path: Path) -> None:
    journal.write(site, BEGUN.model_copy(update={"name": "../../x"}))
    (file,) = tmp_path.rglob("*.json")
    assert file.parent.parent == tmp_path / "state" / "gpu-node" / "onboarding"


def test_an_inventory_is_two_files(tmp_path: Path) -> None:
    (tmp_path / "site.yml").write_text("")
    with pytest.raises(Stopped, match=r"no such inventory file: .*site\.py: copy"):
        site_of(str(tmp_path / "site.yml"))
    with pytest.raises(Stopped, match="give the cluster file"):
        site_of(str(tmp_path))

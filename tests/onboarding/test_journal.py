"""The journal: kept whole, for one inventory, and no obstacle where it is broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_node.onboarding import journal
from gpu_node.onboarding.errors import Stopped
from gpu_node.onboarding.inventory_files import Site, site_of
from gpu_node.onboarding.journal import Journal

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
    journal.write(site, BEGUN.model_copy(update={"removed": True}))
    found = journal.read(site, "v100-02")
    assert found is not None and found.removed
    assert journal.begun(site, "v100-02") is None
    journal.forget(site, "v100-02")
    journal.forget(site, "v100-02")
    assert journal.read(site, "v100-02") is None


def test_another_inventory_has_its_own(site: Site, tmp_path: Path) -> None:
    journal.write(site, BEGUN)
    assert journal.read(at(tmp_path / "there"), "v100-02") is None


def test_no_other_user_can_read_it(site: Site, tmp_path: Path) -> None:
    journal.write(site, BEGUN)
    (file,) = (tmp_path / "state").rglob("*.json")
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("text", ["", "{", '{"name": "v100-02"}', "\xff"])
def test_a_broken_one_is_none(site: Site, tmp_path: Path, text: str) -> None:
    journal.write(site, BEGUN)
    (file,) = (tmp_path / "state").rglob("*.json")
    file.write_text(text, encoding="latin-1")
    assert journal.read(site, "v100-02") is None


def test_a_journal_of_an_older_version_is_read(site: Site, tmp_path: Path) -> None:
    """It has the stages that were done, and may not have the pinned names."""
    journal.write(site, BEGUN)
    (file,) = (tmp_path / "state").rglob("*.json")
    file.write_text(file.read_text().replace('"pinned":[]', '"done":["mesh"],"file":"sum"'))
    assert "pinned" not in file.read_text() and journal.read(site, "v100-02") == BEGUN


def test_a_name_is_no_path(site: Site, tmp_path: Path) -> None:
    journal.write(site, BEGUN.model_copy(update={"name": "../../x"}))
    (file,) = tmp_path.rglob("*.json")
    assert file.parent.parent == tmp_path / "state" / "gpu-node" / "onboarding"


def test_either_file_names_the_inventory(tmp_path: Path) -> None:
    """The one that a user named is its name; the cluster file alone is enough."""
    cluster_file, inventory = tmp_path / "site.yml", tmp_path / "site.py"
    cluster_file.write_text("")
    assert site_of(str(cluster_file)) == Site(cluster_file, cluster_file)
    with pytest.raises(Stopped, match=r"found .*site\.py.* \(no such inventory file"):
        site_of(str(inventory))
    inventory.write_text("")
    assert site_of(str(cluster_file)) == Site(cluster_file, cluster_file)
    assert site_of(str(inventory)) == Site(inventory, cluster_file)
    cluster_file.unlink()
    with pytest.raises(Stopped, match=r"site\.py: found no cluster file .*site\.yml beside it"):
        site_of(str(inventory))
    with pytest.raises(Stopped, match=r"--inventory: found .*; allowed: a cluster file"):
        site_of(str(tmp_path))

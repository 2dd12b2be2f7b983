"""Bad cluster files: the messages of each, line by line (a case is bad/NAME.yml and NAME.txt)."""

import os
from pathlib import Path

import pytest

from gpu_node.inventories.schema import InventoryError, load

BAD = Path(__file__).parent / "bad"
CASES = sorted(path.stem for path in BAD.glob("*.yml"))


def messages(path: Path | str) -> list[str]:
    with pytest.raises(InventoryError) as error:
        load(path)
    return str(error.value).splitlines()


def test_there_are_cases_and_each_has_its_expectation() -> None:
    assert len(CASES) > 40
    assert sorted(path.stem for path in BAD.glob("*.txt")) == CASES


@pytest.mark.parametrize("case", CASES)
def test_bad_file(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(BAD)
    expected = Path(f"{case}.txt").read_text().replace("FOLDER", str(BAD))
    assert messages(f"{case}.yml") == expected.splitlines()


def test_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "none.yml"
    why = "found no such file or directory; allowed: a cluster file (YAML)"
    assert messages(path) == [f"{path}: {why}"]


def test_a_named_pipe_in_place_of_a_file(tmp_path: Path) -> None:
    """Nothing waits for its writer."""
    os.mkfifo(tmp_path / "pipe.yml")
    why = "found a named pipe, not a file; allowed: a cluster file (YAML)"
    assert messages(tmp_path / "pipe.yml") == [f"{tmp_path}/pipe.yml: {why}"]


def test_a_device_in_place_of_a_file() -> None:
    why = "found a device, not a file; allowed: a cluster file (YAML)"
    assert messages("/dev/zero") == [f"/dev/zero: {why}"]


def test_a_large_file(tmp_path: Path) -> None:
    """It is not parsed: that would take a minute."""
    path = tmp_path / "large.yml"
    path.write_text("# a comment\n" * 200_000)
    why = "found too large: 2,400,000 bytes; allowed: a cluster file (YAML) of at most 1 MB"
    assert messages(path) == [f"{path}: {why}"]


def test_folder_in_place_of_a_file(tmp_path: Path) -> None:
    assert messages(tmp_path) == [f"{tmp_path}: found a directory; allowed: a cluster file (YAML)"]


def test_nesting_without_end(tmp_path: Path) -> None:
    path = tmp_path / "deep.yml"
    for text in ("[" * 100_000, "a: " + "[\n" * 3000 + "]\n" * 3000, "- " * 3000):
        path.write_text(text)
        (line,) = messages(path)
        assert "found nesting too deep (more than 50 levels); allowed: a mapping" in line


def test_a_new_file(tmp_path: Path) -> None:
    """To it the first host may come; every other command needs one, and so does a misspelt key."""
    path = tmp_path / "new.yml"
    for hosts in ("hosts:", "hosts: {}"):
        path.write_text(f"cluster: c\n{hosts}\n")
        assert messages(path)[0].startswith(f"{path}:2: hosts: found ")
        assert load(path, may_be_new=True).hosts == {}
    for text in ("cluster: c\n", "cluster: c\nhosts: []\n", "hosts:\n"):
        with pytest.raises(InventoryError):
            load(path, text, may_be_new=True)


def test_known_hosts_that_are_no_text(tmp_path: Path) -> None:
    """One byte that is not UTF-8, in a comment even, and no key in the file would be read."""
    path = tmp_path / "c.yml"
    (tmp_path / "known").write_bytes(b"# \xff\n")
    path.write_text(
        "cluster: c\ngroups: {g: }\nhosts:\n"
        "  h: {address: 10.0.0.1, group: g, ssh: {known_hosts: known}}\n"
    )
    assert messages(path)[0].startswith(f"{path}:4: hosts.h.ssh.known_hosts: found 'known' (")
    assert "UTF-8" in messages(path)[0]


def test_a_key_that_is_no_file(tmp_path: Path) -> None:
    """A folder is no key."""
    path = tmp_path / "c.yml"
    path.write_text(
        "cluster: c\ngroups: {g: }\nhosts:\n  h: {address: 10.0.0.1, group: g, ssh: {key: .}}\n"
    )
    assert messages(path)[0].startswith(f"{path}:4: hosts.h.ssh.key: found '.' (no readable file")

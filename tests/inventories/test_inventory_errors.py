"""Bad cluster files: the messages of each, line by line (a case is bad/NAME.yml and NAME.txt)."""

import os
import subprocess
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


def _of_key(folder: Path, mode: int, *options: str) -> list[str]:
    """Return what is wrong with a cluster file whose key ssh-keygen makes."""
    if not (folder / "key").exists():
        words = ["ssh-keygen", "-q", "-f", str(folder / "key"), *options]
        subprocess.run(words, check=True)
    (folder / "key").chmod(mode)
    (folder / "c.yml").write_text(
        "cluster: c\ndefaults:\n  ssh:\n    key: key\ngroups: {g: }\n"
        "hosts:\n  h: {address: 10.0.0.1, group: g}\n"
    )
    try:
        load(folder / "c.yml")
    except InventoryError as error:
        return list(error.lines)
    return []


@pytest.mark.parametrize("kind", [["-t", "ed25519"], ["-t", "rsa", "-m", "PEM"], ["-m", "PKCS8"]])
def test_a_key_with_a_passphrase(tmp_path: Path, kind: list[str]) -> None:
    """The error names the agent; a key without one is accepted."""
    (line,) = _of_key(tmp_path, 0o600, *kind, "-N", "secret")
    assert line == (
        f"{tmp_path}/c.yml:4: defaults.ssh.key: found 'key' ({tmp_path}/key is encrypted with a "
        f"passphrase); allowed: a key without a passphrase; next: ssh-add {tmp_path}/key, and "
        "remove this line: the agent's keys are used"
    )
    (tmp_path / "key").unlink()
    assert _of_key(tmp_path, 0o600, *kind, "-N", "") == []


def test_a_key_that_others_can_read(tmp_path: Path) -> None:
    """Ssh refuses it; the error has the command."""
    (line,) = _of_key(tmp_path, 0o644, "-t", "ed25519", "-N", "")
    assert "its mode is 644, and ssh refuses that); allowed: mode 600; next: chmod 600 " in line
    assert _of_key(tmp_path, 0o400) == []
    (tmp_path / "key").write_text((tmp_path / "key.pub").read_text())
    (line,) = _of_key(tmp_path, 0o644)
    assert "is a public key); allowed: the private key, without .pub" in line


def test_known_hosts_that_are_another_file(tmp_path: Path) -> None:
    """A file with host keys, a hashed one, comments or nothing is one; any other text is not."""
    path, known = tmp_path / "c.yml", tmp_path / "known"
    path.write_text(
        "cluster: c\ngroups: {g: }\nhosts:\n"
        "  h: {address: 10.0.0.1, group: g, ssh: {known_hosts: known}}\n"
    )
    for text in ("", "# a\n\n", "|1|a=|b= ssh-rsa AAAAB\nx\n", "@revoked * ssh-rsa AAAAB"):
        known.write_text(text)
        load(path)
    for text in ("[defaults]\n", "cluster: c\nhosts:\n  a: b\n", "#!/bin/sh\necho\n"):
        known.write_text(text)
        (line,) = messages(path)
        assert f"found 'known' (no line of {known} is a host key); allowed: a known_hosts" in line

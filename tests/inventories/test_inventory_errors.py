"""Bad cluster files: line, key and kind of each problem, and what to write (cases: bad.yml)."""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu_node.inventories.errors import dotted
from gpu_node.inventories.keys import Key, complaints, examples, keys_of
from gpu_node.inventories.schema import HostEntry, InventoryError, load
from tests import case_files

CASES: list[dict[str, Any]] = case_files.load((Path(__file__).parent / "bad.yml").read_text())
NEXT = "next: give the path of a cluster file; gpu-node init writes one"
# What YAML takes in place of the letters and line ends of a file.
SPELLED: dict[str, Callable[[str], str]] = {
    "crlf": lambda text: text.replace("\n", "\r\n"),
    "bom": lambda text: f"\ufeff{text}",
}


def written(case: dict[str, Any], folder: Path) -> Path:
    """Write the file of a case, and return its path."""
    file = folder / f"{case['name']}.yml"
    text = case["text"]
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def messages(path: Path | str) -> list[str]:
    with pytest.raises(InventoryError) as error:
        load(path)
    return str(error.value).splitlines()


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_bad_file(case: dict[str, Any], tmp_path: Path) -> None:
    """Each problem has its line, key and kind, and says what to write."""
    file = written(case, tmp_path)
    with pytest.raises(InventoryError) as error:
        load(file)
    kinds = [problem.kind for problem in error.value.problems] or ["file"]
    assert len(error.value.lines) == len(kinds) == len(case["says"]), error.value.lines
    for found, kind, row in zip(error.value.lines, kinds, case["says"], strict=True):
        line, key, wanted, *words = row
        place = f"{file}:{line}: {key}: found " if key else f"{file}:{line}: found "
        assert found.startswith(place) and kind == wanted, found
        assert "; allowed: " in found and words[-1].startswith("next: ")
        for each in words:
            assert each.replace("$dir", str(tmp_path)) in found


@pytest.mark.parametrize("spelled", SPELLED.values(), ids=SPELLED)
def test_line_ends_and_a_byte_order_mark(spelled: Callable[[str], str], tmp_path: Path) -> None:
    """They change neither what a file says nor the lines of its problems."""
    file = tmp_path / "c.yml"
    text = "cluster: c\ndefaults: {driver: {persistence: on}}\nhosts:\n  a: {address: 10.0.0.4}\n"
    file.write_bytes(spelled(text).encode())
    assert load(file).data_of("a")["driver_persistence"] is True
    file.write_bytes(spelled(text.replace("on}", "om}")).encode())
    assert messages(file)[0].startswith(f"{file}:2: defaults.driver.persistence: found 'om'")


@pytest.mark.parametrize("word", ["yes", "Yes", "on", "ON", "true", "no", "off", "False"])
def test_words_of_yaml_for_a_switch(word: str, tmp_path: Path) -> None:
    """Those that YAML 1.1 reads as true or false are taken, without quotes."""
    file = tmp_path / "c.yml"
    file.write_text(
        f"cluster: c\nhosts:\n  a: {{address: 10.0.0.4, driver: {{persistence: {word}}}}}\n"
    )
    is_on = word.lower() in ("yes", "on", "true")
    assert load(file).data_of("a")["driver_persistence"] is is_on


def test_a_large_file_that_is_not_yaml(tmp_path: Path) -> None:
    """No line is tried in place of the wrong one: each try would take as long as the file."""
    path = tmp_path / "c.yml"
    path.write_text(
        "cluster: c\nhosts:\n"
        + "".join(f"  a{n}: {{address: 10.0.0.4}}\n" for n in range(1900))
        + "  b: {\n"
    )
    begun = time.process_time()
    (line,) = messages(path)
    assert line.startswith(f"{path}:1904: found text that is not YAML") and "; next: " in line
    assert time.process_time() - begun < 4


def test_no_advice_shows_a_password(tmp_path: Path) -> None:
    """Neither of a value nor of a line that is not YAML."""
    path = tmp_path / "c.yml"
    for url in ("'http://u:secret@h:1/ '", "http://u:secret@h:1/', x: ["):
        path.write_text(f"cluster: c\nhosts:\n  a: {{address: h, proxy: {url}}}\n")
        assert "; next: " in messages(path)[0] and "secret" not in "".join(messages(path))


@pytest.mark.parametrize("key", [*keys_of(HostEntry)], ids=lambda key: dotted(key.path))
def test_each_key_has_an_example_that_it_takes(key: Key) -> None:
    """It is shown as the next step where nothing is near what is written."""
    value = next(examples(HostEntry, key.path))
    for name in reversed(key.path):
        value = {name: value}
    found = complaints(HostEntry, value, partial=True)
    assert [each for each in found if each.path[: len(key.path)] == key.path] == []


def test_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "none.yml"
    why = f"found no such file or directory; allowed: a cluster file (YAML); {NEXT}"
    assert messages(path) == [f"{path}: {why}"]


def test_a_named_pipe_in_place_of_a_file(tmp_path: Path) -> None:
    """Nothing waits for its writer."""
    os.mkfifo(tmp_path / "pipe.yml")
    why = f"found a named pipe, not a file; allowed: a cluster file (YAML); {NEXT}"
    assert messages(tmp_path / "pipe.yml") == [f"{tmp_path}/pipe.yml: {why}"]


def test_a_device_in_place_of_a_file() -> None:
    why = f"found a device, not a file; allowed: a cluster file (YAML); {NEXT}"
    assert messages("/dev/zero") == [f"/dev/zero: {why}"]


def test_a_large_file(tmp_path: Path) -> None:
    """It is not parsed: that would take a minute."""
    path = tmp_path / "large.yml"
    path.write_text("# a comment\n" * 200_000)
    why = "found too large: 2,400,000 bytes; allowed: a cluster file (YAML) of at most 1 MB"
    assert messages(path) == [f"{path}: {why}; {NEXT}"]


def test_folder_in_place_of_a_file(tmp_path: Path) -> None:
    why = f"found a directory; allowed: a cluster file (YAML); {NEXT}"
    assert messages(tmp_path) == [f"{tmp_path}: {why}"]


def test_nesting_without_end(tmp_path: Path) -> None:
    path = tmp_path / "deep.yml"
    for text in ("[" * 100_000, "a: " + "[\n" * 3000 + "]\n" * 3000, "- " * 3000):
        path.write_text(text)
        (line,) = messages(path)
        assert "found nesting too deep (more than 50 levels); allowed: at most 50 levels" in line


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

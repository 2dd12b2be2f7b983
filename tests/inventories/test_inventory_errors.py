"""Bad cluster files: the whole message of each mistake (cases: bad_files.txt)."""

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from gpu_node.inventories.errors import InventoryError, dotted
from gpu_node.inventories.keys import Key, complaints, examples, keys_of
from gpu_node.inventories.schema import HostEntry, load

NEXT = "next: give the path of a cluster file; gpu-node init writes one"
# The file around what a row writes.
LEVELS = {
    "file": "{}\n",
    "defaults": "cluster: c\ndefaults:\n  {}\nhosts:\n  a: {{address: 10.0.0.4}}\n",
    "groups": "cluster: c\ngroups:\n  {}\nhosts:\n  a: {{address: 10.0.0.4}}\n",
    "hosts": "cluster: c\nhosts:\n  {}\n",
    "host": "cluster: c\nhosts:\n  a: {{address: 10.0.0.4, {}}}\n",
}
# What YAML takes in place of the letters and line ends of a file.
SPELLED: dict[str, Callable[[str], str]] = {
    "crlf": lambda text: text.replace("\n", "\r\n"),
    "bom": lambda text: f"\ufeff{text}",
}


class Bad(NamedTuple):
    """A row of bad_files.txt: what is written, the whole file, and its messages."""

    written: str
    text: str
    messages: list[str]

    def write(self, folder: Path) -> Path:
        """Write the file, and return its path."""
        file = folder / "c.yml"
        file.write_bytes(self.text.encode(errors="surrogateescape"))
        return file


def _rows(lines: list[str]) -> Iterator[Bad]:
    level = ""
    allowed: dict[str, str] = {}
    messages: list[str] = []
    for line in lines:
        written, is_row, message = line.partition(" => ")
        if is_row:
            if written.strip():
                # \n, \t and \x.. as in Python; no other letter changes.
                inside = written.encode("latin-1", "backslashreplace").decode("unicode_escape")
                messages = []
                yield Bad(written, LEVELS[level].format(inside), messages)
            messages.append(re.sub(r"(?<=allowed: )\$([a-z-]+)", lambda m: allowed[m[1]], message))
        elif line.startswith("["):
            level = line.strip("[]")
        elif line.startswith("$"):
            name, _, words = line[1:].partition(" = ")
            allowed[name] = words
        else:
            assert line.startswith("# "), line


BAD = list(_rows((Path(__file__).parent / "bad_files.txt").read_text().splitlines()))


def messages(path: Path | str) -> list[str]:
    with pytest.raises(InventoryError) as error:
        load(path)
    return str(error.value).splitlines()


@pytest.mark.parametrize("bad", BAD, ids=[bad.written[:60] for bad in BAD])
def test_bad_file(bad: Bad, tmp_path: Path) -> None:
    """Each problem has its line and key, and says what was found, what is allowed and what next."""
    file = bad.write(tmp_path)
    expected = [f"{file}:{message.replace('$dir', str(tmp_path))}" for message in bad.messages]
    assert messages(file) == expected


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
    """Its error takes no longer than its reading."""
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


NOT_READ: dict[str, Callable[[Path], object]] = {
    "no such file or directory": lambda path: None,
    "a named pipe, not a file": os.mkfifo,  # nothing waits for its writer
    "a device, not a file": lambda path: path.symlink_to("/dev/zero"),
    "a directory": Path.mkdir,
}


@pytest.mark.parametrize(("found", "make"), NOT_READ.items(), ids=NOT_READ)
def test_no_file(found: str, make: Callable[[Path], object], tmp_path: Path) -> None:
    path = tmp_path / "c.yml"
    make(path)
    assert messages(path) == [f"{path}: found {found}; allowed: a cluster file (YAML); {NEXT}"]


MANY = "".join(f"  n{n}: {{address: 10.0.{n // 250}.{n % 250}}}\n" for n in range(15_000))
LISTS = "".join(f"  n{n}: {{directories: [{'a,' * 1499}]}}\n" for n in range(60))
FEWER = "; allowed: at most 2,000 in one place"
# None is parsed whole: that would take a minute.
LARGE = {
    "bytes": (
        "# a comment\n" * 200_000,
        ": found too large: 2,400,000 bytes; allowed: a cluster file (YAML) of at most 1 MB; ",
    ),
    "hosts": (f"cluster: c\nhosts:\n{MANY}", f":2003: found more than 2,000 entries{FEWER}"),
    "a list": (
        f"cluster: c\nhosts: [{'a,' * 300_000}]\n",
        f":2: found more than 2,000 entries{FEWER}",
    ),
    "lists": (
        f"cluster: c\nhosts:\n{LISTS}",
        ":32: found more than 45,000 values; allowed: at most 45,000",
    ),
}


@pytest.mark.parametrize(("text", "message"), LARGE.values(), ids=LARGE)
def test_a_large_file(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "c.yml"
    path.write_text(text)
    (line,) = messages(path)
    assert line.startswith(f"{path}{message}")


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
    path.write_text("cluster: c\nhosts:\n  h: {address: 10.0.0.1, ssh: {known_hosts: known}}\n")
    for text in ("", "# a\n\n", "|1|a=|b= ssh-rsa AAAAB\nx\n", "@revoked * ssh-rsa AAAAB"):
        known.write_text(text)
        load(path)
    place = f"{path}:3: hosts.h.ssh.known_hosts: found 'known' ("
    for text in ("[defaults]\n", "cluster: c\nhosts:\n  a: b\n", "#!/bin/sh\necho\n"):
        known.write_text(text)
        (line,) = messages(path)
        assert line.startswith(f"{place}no line of {known} is a host key); allowed: a known_hosts")
    # One such byte, in a comment even, and no key in the file would be read.
    known.write_bytes(b"# \xff\n")
    (line,) = messages(path)
    assert line.startswith(place) and "UTF-8" in line

"""The files that a cluster file names: each is there, can be read, and is what it has to be."""

import base64
import binascii
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from gpu_node.inventories.cluster import FILES, NO_FILE, full_path
from gpu_node.inventories.errors import KeyPath, Problem, at, shown
from gpu_node.inventories.fields.kinds import EXISTING_FILE
from gpu_node.inventories.yaml.read import Document

# Names, the type of a key, and the key.
_HOST_KEY = re.compile(r"[ \t]*(?:@\S+[ \t]+)?[^#\s]\S*[ \t]+(?:ssh|ecdsa|sk)-\S+[ \t]+\S")
_ENTRY = re.compile(r"^[ \t]*[^#\s]", re.MULTILINE)
_PRIVATE = re.compile(r"-----BEGIN ([A-Z ]*)PRIVATE KEY-----")
_ENCRYPTED = re.compile(r"^Proc-Type: 4,ENCRYPTED", re.MULTILINE)
# The start of OpenSSH's format, and the word in it for a key that has no passphrase.
_MAGIC, _PLAIN = b"openssh-key-v1\0", b"\0\0\0\4none"
_OF_OTHERS = 0o077
# Where a private key is named: a host may have it without `ssh`.
_KEYS = (("ssh", "key"), ("key",))
# What is wrong with a word, or a file, that would have unknown host keys accepted.
HOST_KEYS = "host keys are always checked"
PINNED = "remove it; gpu-node init and onboard show the keys, and pin them"


def missing_files(document: Document, layer: KeyPath) -> Iterator[Problem]:
    """What is wrong with the files that a level names."""
    for path in (*_KEYS, ("ssh", "known_hosts"), *FILES):
        written = at(document.value, (*layer, *path))
        if not isinstance(written, str) or written.startswith("-") or written in NO_FILE:
            continue
        file = full_path(document.file, written)
        if problem := _unreadable((*layer, *path), written, file):
            yield problem
            continue
        try:
            text = Path(file).read_text("utf-8")
        except UnicodeDecodeError:
            allowed = "a file of UTF-8 text; with any other byte none of its keys is read"
            then = f"remove those bytes: LC_ALL=C grep -naP '[^ -~]' {shlex.quote(file)}"
            why = f"{file} is not UTF-8 text"
            yield Problem((*layer, *path), shown(written), why, allowed, then)
            continue
        if path in FILES and "-----BEGIN PGP PUBLIC KEY" not in text:
            allowed = "a public key as text, as gpg --armor --export writes it"
            why, then = f"{file} is not a public key", f"gpg --armor --export ID >{file}"
            yield Problem((*layer, *path), shown(written), why, allowed, then)
        elif path == ("ssh", "known_hosts"):
            yield from _not_known_hosts((*layer, *path), written, file, text)
        elif path in _KEYS:
            yield from _unusable_key((*layer, *path), written, file, text)


def unreadable_of_data(data: Mapping[str, object]) -> Iterator[Problem]:
    """The same of flat host data; a known_hosts file may be written later."""
    for key in ("ssh_key", "ssh_known_hosts_file", "nccl_repository_key"):
        written = data.get(key)
        if not isinstance(written, str) or written in NO_FILE:
            continue
        file = full_path(Path("."), written)
        is_later = key == "ssh_known_hosts_file" and not os.path.exists(file)
        if not is_later and (problem := _unreadable((key,), written, file)):
            yield problem._replace(allowed="an existing file")


def _unreadable(path: KeyPath, written: str, file: str) -> Problem | None:
    if os.path.isfile(file) and os.access(file, os.R_OK):
        return None
    why, then = f"no readable file {file}", f"ls -l {shlex.quote(file)}, and write the right path"
    if "$" in written:
        then = "write the path itself, such as ~/.ssh/id_ed25519: $ is not replaced here"
    elif file == os.devnull and "known_hosts" in str(path[-1]):
        why, then = HOST_KEYS, PINNED
    return Problem(path, shown(written), why, EXISTING_FILE, then)


def _not_known_hosts(path: KeyPath, written: str, file: str, text: str) -> Iterator[Problem]:
    if _ENTRY.search(text) and not any(map(_HOST_KEY.match, text.splitlines())):
        allowed = "a known_hosts file: lines of names, key type and key; an empty file"
        then = "write known_hosts: known_hosts, and run gpu-node host-key for each node"
        yield Problem(path, shown(written), f"no line of {file} is a host key", allowed, then)


def _unusable_key(path: KeyPath, written: str, file: str, text: str) -> Iterator[Problem]:
    """Yield why ssh or pyinfra would not use a private key; other files are left to them."""
    begin = _PRIVATE.search(text)
    if text.startswith(("ssh-", "ecdsa-", "sk-")):
        why, allowed = f"{file} is a public key", "the private key, without .pub"
        yield Problem(
            path, shown(written), why, allowed, f"write key: {written.removesuffix('.pub')}"
        )
    elif begin and (mode := os.stat(file).st_mode & 0o777) & _OF_OTHERS:
        why = f"other users can read {file}: its mode is {mode:03o}, and ssh refuses that"
        then = f"chmod 600 {shlex.quote(file)}"
        yield Problem(path, shown(written), why, "mode 600", then)
    elif begin and _is_encrypted(begin[1], text):
        why = f"{file} is encrypted with a passphrase"
        then = f"ssh-add {shlex.quote(file)}, and remove this line: the agent's keys are used"
        yield Problem(path, shown(written), why, "a key without a passphrase", then)


def is_encrypted(file: Path) -> bool:
    """Whether a file is a private key with a passphrase; one that cannot be read is none."""
    try:
        text = file.read_text("utf-8") if file.is_file() else ""
    except (OSError, UnicodeDecodeError):
        return False
    begin = _PRIVATE.search(text)
    return begin is not None and _is_encrypted(begin[1], text)


def _is_encrypted(kind: str, text: str) -> bool:
    """Whether a private key has a passphrase; `kind` is the first word of its PEM header."""
    if kind != "OPENSSH ":
        return kind == "ENCRYPTED " or bool(_ENCRYPTED.search(text))
    body = "".join(line for line in text.splitlines() if not line.startswith("-----"))
    try:
        raw = base64.b64decode(body)
    except binascii.Error:
        return False
    return raw.startswith(_MAGIC) and not raw.startswith(_MAGIC + _PLAIN)

"""The files that a cluster file names: each is there, can be read, and is what it has to be."""

import os
from collections.abc import Iterator
from pathlib import Path

from gpu_node.inventories.cluster import FILES, NO_FILE, full_path
from gpu_node.inventories.errors import KeyPath, Problem, at, shown
from gpu_node.inventories.yaml.read import Document


def missing_files(document: Document, layer: KeyPath) -> Iterator[Problem]:
    """What is wrong with the files that a level names."""
    for path in (("ssh", "key"), ("ssh", "known_hosts"), *FILES):
        written = at(document.value, (*layer, *path))
        if not isinstance(written, str) or written.startswith("-") or written in NO_FILE:
            continue
        file = full_path(document.file, written)
        if not os.path.isfile(file) or not os.access(file, os.R_OK):
            why = f"no readable file {file}"
            allowed = "an existing file; a relative path starts at the cluster file"
            yield Problem((*layer, *path), shown(written), why, allowed)
        elif not _is_text(file):
            allowed = "a file of UTF-8 text; with any other byte none of its keys is read"
            yield Problem((*layer, *path), shown(written), f"{file} is not UTF-8 text", allowed)
        elif path in FILES and "-----BEGIN PGP PUBLIC KEY" not in Path(file).read_text("utf-8"):
            allowed = "a public key as text, as gpg --armor --export writes it"
            yield Problem((*layer, *path), shown(written), f"{file} is not a public key", allowed)


def _is_text(file: str) -> bool:
    try:
        Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return False
    return True

"""Texts of a release that patterns name: `python -m tests.diagnose.extract PACKAGE==VERSION ...`.

Downloads the wheel or the sdist with pip, and writes to `extracts/` which texts of patterns are in
which of its files: of a program's text the line, of a library the string.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml
from pydantic import BaseModel, ConfigDict

from gpu_node.diagnose.cause import Pattern, causes
from tests.case_files import load

HERE = Path(__file__).parent / "extracts"
_LONGEST = 300


class Extract(BaseModel):
    """A release: the file that was downloaded, its sha256, and texts by the file in it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    package: str
    version: str
    download: str
    sha256: str
    texts: dict[str, list[str]]


def extracts() -> list[Extract]:
    """Return all of them."""
    files = sorted(HERE.glob("*.yml"))
    return [Extract.model_validate(load(each.read_text())) for each in files]


def of_packages() -> dict[str, list[tuple[str, Pattern]]]:
    """Return the patterns whose text is a package's, with the cause of each."""
    found: dict[str, list[tuple[str, Pattern]]] = {}
    for name, cause in causes().items():
        for pattern in cause.patterns:
            if pattern.source.package:
                found.setdefault(pattern.source.package, []).append((name, pattern))
    return found


def _files(download: Path, wanted: set[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a wheel or an sdist whose path ends with one that is wanted."""
    if download.suffix == ".whl":
        with zipfile.ZipFile(download) as wheel:
            for name in wheel.namelist():
                if any(f"/{name}".endswith(f"/{each}") for each in wanted):
                    yield name, wheel.read(name)
        return
    with tarfile.open(download) as sdist:
        for member in sdist:
            opened = sdist.extractfile(member) if member.isfile() else None
            if opened and any(f"/{member.name}".endswith(f"/{each}") for each in wanted):
                yield member.name, opened.read()


def _around(data: bytes, text: bytes) -> str | None:
    """Return the line, or the string of a library, that has a text."""
    if (at := data.find(text)) < 0:
        return None
    begin = max(data.rfind(end, 0, at) for end in (b"\n", b"\0")) + 1
    ends = [found for end in (b"\n", b"\0") if (found := data.find(end, at)) >= 0]
    begin = max(begin, at - _LONGEST // 2)
    whole = data[begin : min([*ends, at + _LONGEST])].decode("utf-8", "replace")
    return re.sub(r"[^ -~]+", " ", whole).strip()


def extract(release: str) -> Extract:
    """Download a release, and return what it has of the patterns' texts."""
    package, _, version = release.partition("==")
    patterns = [pattern for _, pattern in of_packages()[package]]
    with TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, release]
        subprocess.run(pip, check=True)
        (download,) = Path(folder).iterdir()
        digest = hashlib.sha256(download.read_bytes()).hexdigest()
        texts: dict[str, set[str]] = {}
        for name, data in _files(download, {each.source.file for each in patterns}):
            for pattern in patterns:
                around = _around(data, pattern.has.encode())
                if f"/{name}".endswith(f"/{pattern.source.file}") and around:
                    texts.setdefault(name, set()).add(around)
    listed = {name: sorted(each) for name, each in sorted(texts.items())}
    return Extract(
        package=package, version=version, download=download.name, sha256=digest, texts=listed
    )


def main() -> None:
    """Write the extracts of the releases that the command line names."""
    for release in sys.argv[1:]:
        found = extract(release)
        path = HERE / f"{found.package}-{found.version}.yml"
        path.write_text(yaml.safe_dump(found.model_dump(), sort_keys=False, width=1000))
        print(f"{path.name}: {sum(map(len, found.texts.values()))} texts")


if __name__ == "__main__":
    main()

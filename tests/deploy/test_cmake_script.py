"""cmake.sh, really: a release into its own prefix, linked; whatever fails, the old one stays.

The script's /opt is a folder of the test; all else is as on a node.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from deploy.scripts import script
from tests.deploy.applying import SHELLS, Done, apply, said, text_of

PROGRAMS = ("cmake", "ctest", "cpack")
URL = "http://192.0.2.1/cmake.tar.gz"


def release(version: str = "3.25.2", says: str | None = None, padding: int = 0) -> bytes:
    """Return a tarball whose programs are shell scripts."""
    text = f"#!/bin/sh\necho '{says or f'cmake version {version}'}'\n".encode()
    files = {f"bin/{name}": text for name in PROGRAMS} | {"share/modules": os.urandom(padding)}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(f"cmake-{version}-linux-x86_64/{name}")
            entry.size, entry.mode = len(data), 0o755
            tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


@dataclass
class Node:
    """A node in a folder: /opt, the folder of links, backups, and a tarball pushed to it."""

    root: Path
    shell: str
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for folder in ("opt", "stubs"):
            (self.root / folder).mkdir()
        if os.geteuid() != 0:
            self.stub("chown", "exit 0")
        self.env = {"PATH": f"{self.root}/stubs:{os.environ['PATH']}"}
        self.push(release())

    @property
    def prefix(self) -> Path:
        return self.root / "opt" / "cmake-3.25.2"

    @property
    def links(self) -> Path:
        return self.root / "links"

    def push(self, tarball: bytes) -> None:
        """Put a tarball on the node, and take its sum for the one that is wanted."""
        (self.root / "release.tar.gz").write_bytes(tarball)
        self.sha256 = hashlib.sha256(tarball).hexdigest()

    def stub(self, name: str, body: str) -> None:
        """Put a program first in PATH."""
        (self.root / "stubs" / name).write_text(f"#!/bin/sh\n{body}\n")
        (self.root / "stubs" / name).chmod(0o755)

    def switch(self, pushed: bool = True, largest_file: int | None = None) -> Done:
        """Run the script."""
        command = script(
            "cmake",
            version="3.25.2",
            url=URL,
            sha256=self.sha256,
            tarball=str(self.root / "release.tar.gz") if pushed else "",
            links=str(self.links),
            backups=str(self.root / "backups"),
        )
        text = text_of(command).replace("/opt", str(self.root / "opt"))
        return apply(self.shell, text, env=self.env, largest_file=largest_file)

    def is_switched(self) -> bool:
        """Whether every program is linked and nothing is left over."""
        linked = {name: os.readlink(self.links / name) for name in os.listdir(self.links)}
        wanted = {name: str(self.prefix / "bin" / name) for name in PROGRAMS}
        return linked == wanted and os.listdir(self.root / "opt") == ["cmake-3.25.2"]

    def is_clean(self) -> bool:
        """Whether a refusal left no link and nothing in /opt."""
        links = os.listdir(self.links) if self.links.is_dir() else []
        return links == [] and os.listdir(self.root / "opt") == []


@pytest.fixture(params=SHELLS)
def bare(request: pytest.FixtureRequest, tmp_path: Path) -> Node:
    """A node without any cmake of ours."""
    return Node(tmp_path, request.param)


def test_a_pushed_release_is_switched_to(bare: Node) -> None:
    """The controller's copy, for nodes without internet."""
    done = bare.switch()
    assert (done.returncode, done.stderr) == (0, b"")
    assert bare.is_switched()


def test_the_node_fetches_the_release(bare: Node) -> None:
    """By curl, from the URL of the inventory."""
    bare.stub(
        "curl",
        f"""for last; do :; done
        [ "$last" = {URL} ] || exit 6
        while [ "$1" != -o ]; do shift; done
        cp {bare.root}/release.tar.gz "$2\"""",
    )
    assert bare.switch(pushed=False).returncode == 0
    assert bare.is_switched()


def test_a_url_that_cannot_be_fetched(bare: Node) -> None:
    """What curl said is in the message."""
    bare.stub("curl", "echo 'curl: (22) The requested URL returned error: 404' >&2; exit 22")
    words = said(bare.switch(pushed=False))
    assert f"{URL} cannot be fetched: curl: (22)" in words
    assert "the old cmake is still in use" in words
    assert bare.is_clean()


def test_a_second_run_touches_nothing(bare: Node) -> None:
    """Links and files keep their inode and times."""

    def state() -> list[tuple[str, int, int]]:
        paths = sorted([*bare.links.iterdir(), *bare.prefix.rglob("*")])
        return [(str(path), path.lstat().st_ino, path.lstat().st_mtime_ns) for path in paths]

    bare.switch()
    before = state()
    assert bare.switch().returncode == 0
    assert state() == before


def test_a_wrong_sum_is_refused(bare: Node) -> None:
    """Both sums are told and nothing is unpacked."""
    found, bare.sha256 = bare.sha256, "0" * 64
    words = said(bare.switch())
    assert f"the tarball has sha256 {found}, the inventory wants {'0' * 64}" in words
    assert bare.is_clean()


@pytest.mark.parametrize("says", ["cmake version 3.23.3", "cmake version 3.25.20", "Exec format"])
def test_a_release_that_is_another_one_is_refused(bare: Node, says: str) -> None:
    """The sum is right and the program is not: another version, or another machine's."""
    bare.push(release(says=says))
    assert "holds no cmake 3.25.2 for this machine" in said(bare.switch())
    assert bare.is_clean()


def test_what_is_no_tarball_is_refused(bare: Node) -> None:
    """A login page of a proxy, whose sum somebody copied."""
    bare.push(b"<html>log in</html>")
    assert "unpacking failed" in said(bare.switch())
    assert bare.is_clean()


def test_a_full_disk_leaves_nothing_behind(bare: Node) -> None:
    """The next run has all the room there is."""
    bare.push(release(padding=300_000))
    words = said(bare.switch(largest_file=100_000))
    assert "unpacking failed" in words
    assert "MB free" in words
    assert bare.is_clean()
    assert bare.switch().returncode == 0
    assert bare.is_switched()


def test_links_that_cannot_be_made_are_seen_first(bare: Node) -> None:
    """Before anything is fetched or unpacked."""
    bare.links.write_text("a file where the folder should be")
    bare.stub("curl", f"touch {bare.root}/fetched")
    assert "cannot be written" in said(bare.switch(pushed=False))
    assert os.listdir(bare.root / "opt") == []
    assert not (bare.root / "fetched").exists()


def test_what_a_killed_run_left_is_cleared(bare: Node) -> None:
    """Half a tree and half a link are no obstacle."""
    work = bare.root / "opt" / ".cmake-3.25.2.gpu-node"
    (work / "tree" / "half").mkdir(parents=True)
    bare.links.mkdir()
    (bare.links / ".gpu-node-link").symlink_to("/nowhere")
    assert bare.switch().returncode == 0
    assert bare.is_switched()


def test_half_a_release_in_the_prefix_is_moved_aside(bare: Node) -> None:
    """Somebody's files are kept, and the release is whole."""
    (bare.prefix / "bin").mkdir(parents=True)
    (bare.prefix / "bin" / "notes").write_text("mine")
    assert bare.switch().returncode == 0
    assert bare.is_switched()
    kept = list((bare.root / "backups").rglob("notes"))
    assert [path.read_text() for path in kept] == ["mine"]


def test_programs_in_the_place_of_links_are_kept(bare: Node) -> None:
    """A cmake that was copied there is backed up before its name is taken."""
    bare.links.mkdir()
    (bare.links / "cmake").write_text("#!/bin/sh\necho cmake version 3.23.3\n")
    (bare.links / "ctest").symlink_to("/usr/bin/ctest-of-the-distribution")
    assert bare.switch().returncode == 0
    assert bare.is_switched()
    folder = Path(f"{bare.root}/backups{bare.links}")
    assert "3.23.3" in (folder / "cmake").read_text()
    assert os.readlink(folder / "ctest") == "/usr/bin/ctest-of-the-distribution"


def test_a_folder_in_the_place_of_a_link_is_refused(bare: Node) -> None:
    """Nothing is put into it and nothing of it is lost."""
    (bare.links / "cmake" / "inside").mkdir(parents=True)
    assert "is a directory" in said(bare.switch())
    assert os.listdir(bare.links / "cmake") == ["inside"]


def test_other_releases_stay(bare: Node) -> None:
    """The old prefix is there to go back to."""
    old = bare.root / "opt" / "cmake-3.23.3" / "bin"
    old.mkdir(parents=True)
    (old / "cmake").write_text("old")
    assert bare.switch().returncode == 0
    assert (old / "cmake").read_text() == "old"

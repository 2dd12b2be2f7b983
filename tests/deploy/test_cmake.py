"""cmake.sh, run for real over an /opt of its own: one test a case of cmake.yml.

A case: `before` and the lines of `after` are sh, run around the script as root, with the variables
of `Machine.variables`; `script` replaces variables of the script; `opt` is the size of /opt;
`shells` names the shells where not all of them can show it. A case that `says` something fails with
that, and of each such case is asked what must hold after any failure. `prints` are the lines about
what was moved away.
"""

from __future__ import annotations

import hashlib
import io
import shlex
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from typing_extensions import override

from gpu_node.deploy.engine.scripts import script
from tests import case_files
from tests.node_scripts import Ended, run_apart
from tests.shells import SH

VERSION = "3.25.2"
FILE = Path(__file__).parent / "cmake.yml"
PROGRAM = "#!/bin/sh\necho 'cmake version {version}'\necho\necho 'CMake suite'\n"
PREFIX = f"/opt/cmake-{VERSION}"
# After whatever failed: no half of the release, and the old one works.
NOTHING_LEFT = (
    f"[ ! -e {PREFIX} ] || {PREFIX}/bin/cmake --version | grep -qx 'cmake version {VERSION}'",
    f"[ ! -e /opt/.cmake-{VERSION}.gpu-node ]",
    '[ "$(old-cmake)" = "cmake version 3.5.0" ]',
)


@dataclass(frozen=True)
class Machine:
    """Where a case happens: `root` is a mount of its own and holds links and backups."""

    root: Path
    tarballs: Path
    http: str

    @property
    def variables(self) -> dict[str, str]:
        """What a case may name in its sh and in its expectations."""
        return {
            "links": f"{self.root}/usr/local/bin",
            "backups": f"{self.root}/backups/now",
            "root": str(self.root),
            "prefix": PREFIX,
            "work": f"/opt/.cmake-{VERSION}.gpu-node",
            "tarballs": str(self.tarballs),
            "http": self.http,
        }

    def before(self, opt: str, more: str) -> str:
        """Mount what is the case's own, and put an old cmake there that works."""
        assignments = [f"{key}={shlex.quote(value)}" for key, value in self.variables.items()]
        return "\n".join(
            [
                *assignments,
                f"mount -t tmpfs -o mode=755,size={opt} tmpfs /opt",
                f"mount -t tmpfs tmpfs {shlex.quote(str(self.root))}",
                'mkdir -p "$links" /opt/cmake-3.5.0/bin',
                f"printf %s {shlex.quote(PROGRAM.format(version='3.5.0'))} >/opt/old-cmake",
                "chmod +x /opt/old-cmake; old-cmake() { /opt/old-cmake | head -n 1; }",
                more,
            ]
        )


def pack(path: Path, members: dict[str, str]) -> str:
    """Write a tar.gz of programs and return its sha256."""
    with tarfile.open(path, "w:gz") as archive:
        for name, text in members.items():
            member = tarfile.TarInfo(name)
            member.mode, member.size = 0o755, len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return hashlib.sha256(path.read_bytes()).hexdigest()


def noise(size: int) -> str:
    """Text that gzip hardly makes smaller."""
    blocks = (hashlib.sha256(str(number).encode()).hexdigest() for number in range(size // 64))
    return "".join(blocks)


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a word on stderr."""

    @override
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """A folder to mount over, and the tarballs that a case may ask for, by http, too."""
    (tmp_path / "root").mkdir()
    tarballs = tmp_path / "tarballs"
    tarballs.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=tarballs))
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield Machine(tmp_path / "root", tarballs, f"http://127.0.0.1:{server.server_port}")
    server.shutdown()
    server.server_close()
    thread.join()


def release(machine: Machine, kind: str) -> dict[str, str]:
    """Make the case's tarball; return its url and sha256."""
    top = f"cmake-{VERSION}-linux-x86_64"
    programs = {
        f"{top}/bin/{name}": PROGRAM.format(version=VERSION) for name in ("cmake", "cpack", "ctest")
    }
    kinds = {
        "right": programs,
        "large": {**programs, f"{top}/share/large": noise(400_000)},
        "without cmake": {f"{top}/bin/ctest": PROGRAM.format(version=VERSION)},
        "another version": {f"{top}/bin/cmake": PROGRAM.format(version="3.25.1")},
        "for another machine": {f"{top}/bin/cmake": "\x7fELF another architecture"},
    }
    path = machine.tarballs / "release.tar.gz"
    if kind == "no tarball":
        path.write_text("<html>Sign in to this network</html>")
        return {"url": path.as_uri(), "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    return {"url": path.as_uri(), "sha256": pack(path, kinds[kind])}


def put(case: Mapping[str, Any], machine: Machine, shell: str) -> Ended:
    """Run the script as a case wants it."""
    chosen = {
        "version": VERSION,
        "pushed": "",
        "links": machine.variables["links"],
        "backups": machine.variables["backups"],
        **release(machine, case.get("release", "right")),
        **{key: filled(value, machine) for key, value in case.get("script", {}).items()},
    }
    after = case.get("after", []) + (list(NOTHING_LEFT) if case.get("says") else [])
    before = machine.before(case.get("opt", "10m"), case.get("before", ""))
    return run_apart(script("cmake", **chosen), shell, before, after)


def filled(text: str, machine: Machine) -> str:
    """Put a machine's paths where a case names a variable."""
    for key, value in machine.variables.items():
        text = text.replace(f"${key}", value)
    return text


CASES = [
    pytest.param(case.data, shell, id=f"{case.name}-{shell}")
    for case in case_files.parse("cmake", FILE.read_text())
    for shell in case.data.get("shells", SH)
]


@pytest.mark.parametrize(("case", "shell"), CASES)
def test_a_case(case: Mapping[str, Any], shell: str, machine: Machine) -> None:
    """A release is linked, or a message says why not and nothing half-made is left."""
    done = put(case, machine, shell)
    if "says" not in case:
        assert (done.code, done.err) == (0, "")
        printed = [filled(line, machine) for line in case.get("prints", [])]
        assert done.out.splitlines() == [f"gpu-node: cmake: {line}" for line in printed]
        return
    assert done.code == 1, done.err
    assert filled(case["says"], machine) in done.err
    assert "the old cmake is still in use" in done.err

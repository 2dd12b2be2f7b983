"""Builds the sdist and the wheel in dist/, and tries them: `python -m tests.release`.

They are made of the last commit. The wheel is installed with requirements.lock into a new
environment, as a user's would be, and its first commands run outside of the repository; with each
Python of the classifiers that PATH has as python3.N.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

REPOSITORY = Path(__file__).resolve().parents[1]
DIST = REPOSITORY / "dist"
LOCK = REPOSITORY / "requirements.lock"
ROOMS = sorted(
    path.name for path in (REPOSITORY / "src" / "gpu_node").iterdir() if path.is_symlink()
)
# At port 1 of this machine no server listens.
CLUSTER = """cluster: site
defaults:
  ssh: {user: unused, key: key, known_hosts: known_hosts, port: 1}
  shm: {size: 8G}
groups: {a100: {}}
hosts: {a100-01: {address: 127.0.0.1, group: a100}}
"""
REFUSED = "Unable to connect to port 1 on 127.0.0.1"
SECONDS = 600


class Failed(Exception):
    """Why there is no release."""


def main() -> int:
    """Return 0 where both files are built and the wheel's first commands work, else 1."""
    try:
        with TemporaryDirectory(prefix="gpu-node-release-") as folder:
            sdist, wheel = _build(Path(folder))
            pythons = found_pythons()
            for version, python in pythons.items():
                work = Path(folder, version)
                work.mkdir()
                _commands(work, wheel, python)
    except Failed as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    print(f"release: {sdist.relative_to(REPOSITORY)} and {wheel.relative_to(REPOSITORY)} work")
    print(f"tried with Python {', '.join(pythons)}")
    if others := [version for version in supported() if version not in pythons]:
        print(f"not tried, as PATH has none: Python {', '.join(others)}")
    return 0


def missing(wheel: Path) -> list[str]:
    """Return those of the repository's files that a wheel should have and has not."""
    names = set(zipfile.ZipFile(wheel).namelist())
    rooms = [name for name in tracked() if name.split("/")[0] in ROOMS]
    return [name for name in rooms if f"gpu_node/{name}" not in names]


def top_of(sdist: Path) -> set[str]:
    """Return the names at the top of an sdist, in its one folder."""
    with tarfile.open(sdist) as archive:
        parts = [Path(name).parts for name in archive.getnames()]
    return {each[1] for each in parts if len(each) > 1}


def supported() -> list[str]:
    """Return the versions of Python that the package index lists for this package."""
    text = (REPOSITORY / "pyproject.toml").read_text()
    return re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text)


def found_pythons() -> dict[str, str]:
    """Return the program of each supported version that runs here, this one in any case."""
    found: dict[str, str] = {}
    for version in supported():
        for python in (sys.executable, shutil.which(f"python{version}")):
            if python and _version(python) == version:
                found.setdefault(version, python)
    return found


def _version(python: str) -> str:
    """Return the version of an interpreter, such as 3.11; empty for one that does not start."""
    ask = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def _build(folder: Path) -> tuple[Path, Path]:
    """Build the sdist of a clean checkout, and the wheel of the sdist."""
    if changed := _output(["git", "status", "--porcelain"]).splitlines():
        raise Failed(f"{len(changed)} files are not committed, as {changed[0][3:]}; commit them")
    checkout = str(folder / "checkout")
    _output(["git", "clone", "-q", str(REPOSITORY), checkout])
    DIST.mkdir(exist_ok=True)
    for old in DIST.iterdir():
        old.unlink()
    python = [sys.executable, "-m"]
    _output([*python, "build", "--no-isolation", "--outdir", str(DIST), checkout], cwd=folder)
    (sdist,), (wheel,) = DIST.glob("*.tar.gz"), DIST.glob("*.whl")
    _output([*python, "twine", "check", "--strict", str(sdist), str(wheel)], cwd=folder)
    if lacking := missing(wheel):
        raise Failed(f"{wheel.name} lacks {len(lacking)} files, as {lacking[0]}")
    return sdist, wheel


def _commands(folder: Path, wheel: Path, python: str) -> None:
    """Install a wheel in a new environment, and try its first commands in an empty folder."""
    programs = installed(folder / "environment", wheel, python)
    site = folder / "site"
    site.mkdir()
    (site / "site.yml").write_text(CLUSTER)
    (site / "known_hosts").touch()
    _output(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "key"], cwd=site)
    gpu_node = str(programs / "gpu-node")
    version = wheel.name.split("-")[1]
    _expect(_output([gpu_node, "--version"], cwd=site), version)
    _expect(_output([gpu_node, "rules"], cwd=site), "shm.too-small")
    _expect(_output([gpu_node, "drift", "site.yml"], cwd=site, code=1), REFUSED)


def installed(environment: Path, wheel: Path, python: str = sys.executable) -> Path:
    """Install a wheel as a user would, in a new environment; return the folder of its programs."""
    _output([python, "-m", "venv", str(environment)])
    programs = environment / "bin"
    pip = [str(programs / "python"), "-m", "pip", "install", "-q"]
    _output([*pip, "--require-hashes", "-r", str(LOCK)], cwd=environment)
    _output([*pip, "--no-deps", str(wheel)], cwd=environment)
    return programs


def tracked() -> list[str]:
    """Return the paths of the repository's files as they are now, committed or not."""
    listed = _output(["git", "ls-files", "-z", "-co", "--exclude-standard"]).split("\0")
    return [name for name in listed if name and os.path.lexists(REPOSITORY / name)]


def built(folder: Path, by_sdist: bool = False) -> Path:
    """Build a wheel of the tracked files in a folder, if need be of their sdist, and return it."""
    for name in tracked():
        target = folder / "source" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(REPOSITORY / name, target, follow_symlinks=False)
    build = [sys.executable, "-m", "build", "--no-isolation", *([] if by_sdist else ["--wheel"])]
    _output([*build, "--outdir", str(folder), str(folder / "source")], cwd=folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


def _expect(output: str, text: str) -> None:
    """Fail unless a text is in exactly one line of the output."""
    if len([line for line in output.splitlines() if text in line]) != 1:
        raise Failed(f"not one line with {text!r} in:\n{output}")


def _output(words: Sequence[str], cwd: Path = REPOSITORY, code: int = 0) -> str:
    """Return the output of a command; raise Failed where it ends otherwise than with a code."""
    done = subprocess.run(
        words,
        cwd=cwd,
        env=_environment(os.environ, cwd),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode != code:
        shown = " ".join(words).replace(f"{sys.executable} -m ", "")
        raise Failed(f"{shown} ended with {done.returncode}, not {code}:\n{done.stdout}")
    return done.stdout


def _environment(variables: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return an environment without the repository's modules, and with reports kept in a folder."""
    kept = {name: value for name, value in variables.items() if name != "PYTHONPATH"}
    return {**kept, "COLUMNS": "200", "XDG_STATE_HOME": str(folder / ".state")}


if __name__ == "__main__":
    sys.exit(main())

"""The two cmake releases of the lab, taken from the wheels that hold the program."""

import hashlib
import sys
import zipfile
from pathlib import Path

from gpu_node.lab.errors import LabError
from gpu_node.lab.machine import run
from gpu_node.lab.tarball import Member, pack

OLD = "3.23.3"
NEW = "3.25.2"
WHEELS = {
    OLD: "78ac0f774784f705f4e91dbe34c158b832b2383057a6fc8ac658af78d2556b1e",
    NEW: "f9587645cea5298d5eb20649f58a83cc53c9efa7d57b0716449a39f366a74986",
}
TOP = f"cmake-{NEW}-linux-x86_64"
TARBALL = f"{TOP}.tar.gz"
TARBALL_SHA256 = "c5286a4570a19fee4618e25c497f5efefebf2372d9405af0225d51686b41d24b"
KEPT = ("bin", "share")
# The manual is two thirds of the files, and every reset of a node would have to write them.
LEFT_OUT = "/Help/"


def tarball(scratch: Path) -> bytes:
    """The cmake release, packed from the wheel that holds the program, and checked."""
    data = pack(members(download(NEW, scratch), TOP))
    found = hashlib.sha256(data).hexdigest()
    if found != TARBALL_SHA256:
        raise LabError(f"{TARBALL} has the sha256 {found}, expected {TARBALL_SHA256}")
    return data


def download(version: str, into: Path) -> Path:
    """The wheel of that cmake release, its sha256 checked by pip."""
    asked = into / f"cmake-{version}.txt"
    asked.write_text(f"cmake=={version} --hash=sha256:{WHEELS[version]}\n")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
    chosen = ["--only-binary=:all:", "--platform=manylinux2014_x86_64", f"--dest={into}"]
    run([*pip, *chosen, "--requirement", asked])
    return next(into.glob(f"cmake-{version}-*.whl"))


def members(wheel: Path, top: str) -> list[Member]:
    """The program's files as a release archive lays them out, below `top`."""
    found = []
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            place = name.removeprefix("cmake/data/")
            kind = place.split("/")[0]
            if place == name or kind not in KEPT or LEFT_OUT in name or name.endswith("/"):
                continue
            mode = 0o755 if kind == "bin" else 0o644
            found.append(Member(f"{top}/{place}", mode, archive.read(name)))
    return found

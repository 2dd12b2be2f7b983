"""Operations on build tools.

pyinfra's files.unarchive after files.download aborts the dry run of a fresh host (#1546), and
download moves the file into place before it checks the sum.
"""

from __future__ import annotations

import hashlib
import urllib.request
from collections.abc import Generator, Sequence
from http.client import HTTPException
from pathlib import Path

from gevent.lock import BoundedSemaphore
from pyinfra import host, logger
from pyinfra.api import FileUploadCommand, FunctionCommand, Host, State, StringCommand, operation

from deploy.controller import cache
from deploy.replacement import backups
from deploy.scripts import script
from deploy.shared import refuse_if_in_use
from drift.environments import unmet
from facts.nccl import ASKED, Environment, Nccl
from facts.toolchain import Cmakes, Toolchain

_ONE_DOWNLOAD = BoundedSemaphore()
_CHUNK = 1 << 20
Command = StringCommand | FileUploadCommand | FunctionCommand


@operation()
def cmake(
    version: str, url: str, sha256: str, fetch: str = "node", links: str = "/usr/local/bin"
) -> Generator[Command, None, None]:
    """
    Put a cmake release into ``/opt/cmake-VERSION`` and link its programs; older ones stay.

    + version: as ``cmake --version`` says it
    + url: of the release's tar.gz
    + sha256: of the tar.gz
    + fetch: ``node``, or ``controller`` for nodes without internet
    + links: the directory of PATH that gets the symlinks

    **Example:**

    .. code:: python

        toolchain.cmake(name="cmake 3.25.2", version="3.25.2", url="http://...", sha256="...")
    """
    if _is_linked(host.get_fact(Toolchain).get("cmake"), version, links):
        host.noop(f"cmake {version} is linked in {links}")
        return
    tarball = ""
    if fetch == "controller":
        kept = cache() / f"cmake-{version}-{sha256[:16]}.tar.gz"
        tarball = f"/var/tmp/gpu-node-{kept.name}"
        yield FunctionCommand(download, [url, sha256, str(kept)], {})
        yield FileUploadCommand(str(kept), tarball)
    yield script(
        "cmake",
        version=version,
        url=url,
        sha256=sha256,
        pushed=tarball,
        links=links,
        backups=backups(),
    )


@operation()
def packages(
    environment: str,
    pins: Sequence[str],
    allow_disruption: bool = False,
    shared: bool = False,
) -> Generator[Command, None, None]:
    """
    Install packages of a Python environment at exactly these versions; no other one changes.

    pyinfra's pip.packages is not idempotent for versions with a build, and lets pip change others.

    + environment: the folder, eg ``/opt/conda/envs/dis``
    + pins: as pip is asked for them, eg ``pyarrow==15.0.2``
    + allow_disruption: even while a process has a libnccl mapped or holds a GPU
    + shared: other nodes may have the folder, too: they are asked whether a process uses a GPU

    **Example:**

    .. code:: python

        toolchain.packages(environment="/opt/conda/envs/dis", pins=["pyarrow==15.0.2"])
    """
    there = host.get_fact(Nccl, environments=environment).get("environments", {})
    found = there.get(environment)
    wanted = dict(pin.split("==") for pin in pins)
    if found is not None and not unmet(Environment.model_validate(found), wanted):
        host.noop(f"{environment} has {', '.join(pins)}")
        return
    if shared and not allow_disruption:
        yield FunctionCommand(refuse_if_in_use, [environment], {})
    yield script(
        "packages_pip",
        prefix=environment,
        pins=" ".join(pins),
        asked=ASKED,
        allow="yes" if allow_disruption else "no",
    )


def _is_linked(found: object, version: str, links: str) -> bool:
    if found is None:
        return False
    wanted = (f"{links}/cmake", f"/opt/cmake-{version}/bin/cmake", version)
    cmakes = Cmakes.model_validate(found).found
    return wanted in [(cmake.path, cmake.real, cmake.version) for cmake in cmakes]


def download(state: State, host: Host, url: str, sha256: str, target: str) -> bool:
    """Fetch a file once for all nodes; a file whose sum is wrong is not kept."""
    path = Path(target)
    with _ONE_DOWNLOAD:
        if path.is_file() and _sum(path) == sha256:
            return True
        logger.info(f"{host.print_prefix}Fetching {url} to the controller")
        try:
            return _fetch(url, sha256, path, host)
        except (OSError, HTTPException, ValueError) as error:
            logger.error(f"{host.print_prefix}cmake: the controller cannot fetch {url}: {error}")
            return False


def _fetch(url: str, sha256: str, path: Path, host: Host) -> bool:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    try:
        with urllib.request.urlopen(url, timeout=30) as source, part.open("wb") as sink:
            while block := source.read(_CHUNK):
                sink.write(block)
        if (found := _sum(part)) == sha256:
            part.replace(path)
            return True
    finally:
        part.unlink(missing_ok=True)
    logger.error(f"{host.print_prefix}cmake: the tarball's sha256 is {found}, wanted {sha256}")
    return False


def _sum(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as source:
        while block := source.read(_CHUNK):
            digest.update(block)
    return digest.hexdigest()

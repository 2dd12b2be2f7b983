"""Operations on build tools.

pyinfra's files.unarchive after files.download aborts the dry run of a fresh host (#1546), and
download moves the file into place before it checks the sum.
"""

import urllib.request
from collections.abc import Mapping, Sequence
from functools import partial
from http.client import HTTPException
from pathlib import Path

from gevent.lock import BoundedSemaphore
from pyinfra import host, logger
from pyinfra.api import FunctionCommand, Host, State, operation
from pyinfra.facts.server import Which

from gpu_node.deploy.engine.scripts import script
from gpu_node.deploy.engine.transactions import transaction
from gpu_node.deploy.files.downloads import Upload, cache, sum_of_file
from gpu_node.deploy.files.operations import Commands
from gpu_node.deploy.files.replace import backups
from gpu_node.deploy.nccl.pip import refuse_if_in_use
from gpu_node.drift.toolchain.packages import unmet
from gpu_node.facts.nccl.state import Environment, Nccl
from gpu_node.facts.toolchain.state import Cmakes, Toolchain
from gpu_node.inventories.atomic_write import place

_ONE_DOWNLOAD = BoundedSemaphore()
_CHUNK = 1 << 20


@operation()
def cmake(
    version: str, url: str, sha256: str, fetch: str = "node", links: str = "/usr/local/bin"
) -> Commands:
    """
    Install a cmake release into ``/opt/cmake-VERSION`` and link its programs; older ones stay.

    + version: as ``cmake --version`` prints it
    + url: of the release's tar.gz
    + sha256: of the tar.gz
    + fetch: ``node``, or ``controller`` for nodes without internet
    + links: the directory of PATH that gets the symlinks
    """
    if _is_linked(host.get_fact(Toolchain).get("cmake"), version, links):
        host.noop(f"cmake {version} is linked in {links}")
        return
    put = partial(
        script,
        "cmake",
        version=version,
        url=url,
        sha256=sha256,
        links=links,
        backups=backups(),
    )
    if fetch == "controller":
        kept = cache() / f"cmake-{version}-{sha256[:16]}.tar.gz"
        yield FunctionCommand(download, [url, sha256, str(kept)], {})
        yield Upload(kept, put)
    else:
        yield put()


@operation()
def packages(
    environment: str,
    pins: Sequence[str],
    allow_disruption: bool = False,
    shared: bool = False,
    hashes: str = "",
    insecure_index: bool = False,
) -> Commands:
    """
    Install packages of a Python environment at exactly these versions, and change no other one.
    pyinfra's pip.packages is not idempotent for versions with a build, and lets pip change others.

    + environment: the folder, eg ``/opt/conda/envs/dis``
    + pins: as requirements of pip, eg ``pyarrow==15.0.2``; ``ninja``: any version
    + allow_disruption: even while a process has a libnccl mapped or holds a GPU
    + shared: other nodes may have the folder, too: they are asked whether a process uses a GPU
    + hashes: the pins with their hashes, as lines of pip's requirements; empty: any
    + insecure_index: even where pip is set to a server that is not proved (http, trusted-host)
    """
    there = host.get_fact(Nccl, environments=environment).get("environments", {})
    answer = there.get(environment)
    wanted = dict(pin.partition("==")[::2] for pin in pins)
    if answer is not None and not _lacks(Environment.model_validate(answer), wanted):
        host.noop(f"{environment} has {', '.join(pins)}")
        return
    if shared and not allow_disruption:
        yield FunctionCommand(refuse_if_in_use, [environment], {})
    yield script(
        "packages_pip",
        prefix=environment,
        pins=" ".join(pins),
        hashes=hashes,
        insecure="yes" if insecure_index else "no",
        allow="yes" if allow_disruption else "no",
        backups=backups(),
    )


@operation()
def program(
    manager: str, program: str, packages: str = "", allow_disruption: bool = False
) -> Commands:
    """
    Install a program without replacing other packages.

    + manager: ``apt-get``, ``dnf`` or ``yum``
    + program: its name, eg ``pdsh``
    + packages: with blanks between; empty: the one that has its name
    + allow_disruption: even while a running container has GPUs
    """
    if host.get_fact(Which, command=program):
        host.noop(f"{program} is installed")
        return
    more = {"allow_reload": "yes" if allow_disruption else "no", "backups": backups()}
    given = {"manager": manager, "program": program, "packages": packages or program}
    yield transaction("program", **given, **more)


def _lacks(environment: Environment, wanted: Mapping[str, str]) -> bool:
    """Whether a package is missing, or is not of its version; an empty version is any."""
    pins = {name: version for name, version in wanted.items() if version}
    return bool(unmet(environment, pins)) or any(
        name not in environment.packages for name in wanted
    )


def _is_linked(answer: object, version: str, links: str) -> bool:
    if answer is None:
        return False
    wanted = (f"{links}/cmake", f"/opt/cmake-{version}/bin/cmake", version)
    cmakes = Cmakes.model_validate(answer).found
    return wanted in [(cmake.path, cmake.real, cmake.version) for cmake in cmakes]


def download(state: State, host: Host, url: str, sha256: str, target: str) -> bool:
    """Download a file once for all nodes; a file with a wrong checksum is not kept."""
    path = Path(target)
    with _ONE_DOWNLOAD:
        if path.is_file() and sum_of_file(path) == sha256:
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
        # The inventory gives the URL, and the checksum below decides.
        with urllib.request.urlopen(url, timeout=30) as source, part.open("wb") as sink:  # noqa: S310 (its sum is checked)
            while block := source.read(_CHUNK):
                sink.write(block)
        if (actual := sum_of_file(part)) == sha256:
            place(part, path)
            return True
    finally:
        part.unlink(missing_ok=True)
    logger.error(f"{host.print_prefix}cmake: the tarball's sha256 is {actual}, wanted {sha256}")
    return False

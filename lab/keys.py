"""Makes, once, the keys and the password of the lab, and pins its host keys."""

import os
import secrets
from collections.abc import Collection
from pathlib import Path

from gpu_node.lab import roster
from gpu_node.lab.errors import LabError
from gpu_node.lab.machine import owner, run


def make() -> None:
    """Make `.lab/` complete; it belongs to the calling user, and existing files stay.

    Raises LabError where it cannot be written, as in an installation of root's.
    """
    try:
        _make()
    except OSError as error:
        raise LabError(
            f"{roster.STATE} cannot be written ({error.strerror}): install gpu-node for yourself "
            "(pipx, or a virtual environment), or run this as root"
        ) from None


def _make() -> None:
    host_keys = roster.STATE / "host_keys"
    host_keys.mkdir(parents=True, exist_ok=True)
    roster.STATE.chmod(0o700)
    make_key(roster.CLIENT_KEY, "gpu-node-lab")
    for node in roster.NODES.values():
        make_key(host_key(node.name), node.name)
        if node.bare and not roster.password_file(node.name).exists():
            write_private(roster.password_file(node.name), secrets.token_urlsafe(12) + "\n")
    pin(roster.NODES)
    give_to_caller(roster.STATE)


def pin(names: Collection[str]) -> None:
    """Write the nodes' host keys to known_hosts, and remove their other lines.

    Lines of other hosts stay, unless all nodes are named: then nothing else stays.
    """
    wanted = known_hosts({name: public(host_key(name)) for name in names}).splitlines()
    found = roster.KNOWN_HOSTS.read_text().splitlines() if roster.KNOWN_HOSTS.exists() else []
    is_all = set(names) == set(roster.NODES)
    theirs = {each for name in names for each in (name, roster.NODES[name].address)}
    own = [line for line in found if is_all or theirs & set(line.split(" ")[0].split(","))]
    if own != wanted:
        kept = [line for line in found if line not in own]
        write_private(roster.KNOWN_HOSTS, "\n".join([*kept, *wanted]) + "\n")
        give_to_caller(roster.KNOWN_HOSTS)


def host_key(name: str) -> Path:
    """Return the file of a node's private host key."""
    return roster.STATE / "host_keys" / name


def public(key: Path) -> str:
    """The public half of a private key: type and key, without the comment."""
    return " ".join(Path(f"{key}.pub").read_text().split()[:2])


def known_hosts(public_keys: dict[str, str]) -> str:
    """The nodes' host keys, each by address and by name."""
    lines = []
    for name, key in public_keys.items():
        lines += [f"{roster.NODES[name].address} {key}", f"{name} {key}"]
    return "\n".join(lines) + "\n"


def make_key(path: Path, comment: str) -> None:
    """Make an ed25519 key pair if it is missing; an incomplete one is replaced."""
    if path.exists() and Path(f"{path}.pub").exists():
        return
    path.unlink(missing_ok=True)
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", path])


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner reads, in one rename."""
    half = path.with_name(f".{path.name}.half")
    half.unlink(missing_ok=True)
    half.touch(mode=0o600)
    half.write_text(text)
    half.replace(path)


def give_to_caller(top: Path) -> None:
    """Make the caller behind sudo the owner of all below `top`."""
    if os.geteuid() != 0:
        return
    uid, gid = owner()
    for path in [top, *top.rglob("*")]:
        os.chown(path, uid, gid, follow_symlinks=False)

"""Gives each node its disk: an overlay over the shared tree, in the state it was found."""

import hashlib
import shlex
from pathlib import Path

from gpu_node.lab import keys, mirror, roster, tree
from gpu_node.lab.machine import as_root

HERE = Path(__file__).parent
SCRIPTS = HERE / "as_found"
STAND_INS = HERE / "stand_ins"
MOUNTS = Path("/proc/self/mountinfo")
# The sum of each file that the node has in /etc, without those of the shared tree.
# Meanwhile the mirror's files are in /mnt, as a user's downloads would be.
MAKE = 'mount --bind "$1" "$2/mnt" && exec chroot "$2" /bin/sh -eu'
ETC = 'cd "$1" && find . -type f -exec cksum {} + | LC_ALL=C sort'


def home(name: str) -> Path:
    """Return the folder of a node's disk."""
    return roster.cache() / "nodes" / name


def root(name: str) -> Path:
    """The node's `/` as its container gets it."""
    return home(name) / "root"


def is_mounted(name: str) -> bool:
    """Whether the node's disk is mounted."""
    return str(root(name)) in {line.split()[4] for line in MOUNTS.read_text().splitlines()}


def is_complete(name: str) -> bool:
    """Whether the node is completely in its found state; after a killed run it is not."""
    return (home(name) / "complete").is_file()


def mount(name: str) -> None:
    """Mount the node's disk with all that was written to it."""
    if is_mounted(name):
        return
    where = home(name)
    as_root(["mkdir", "-p", where / "upper", where / "work", where / "root"])
    lower = ":".join(map(str, [*layers_of(name), tree.place()]))
    layers = f"lowerdir={lower},upperdir={where / 'upper'},workdir={where / 'work'}"
    as_root(["mount", "-t", "overlay", "-o", layers, roster.PREFIX + name, where / "root"])


def layers_of(name: str) -> list[str]:
    """Return the layer between the shared tree and the node's files; empty after a reset."""
    noted = home(name) / "layers"
    return noted.read_text().split() if noted.is_file() else []


def put_under(name: str, layer: Path) -> None:
    """Put a layer under the node's own files; the node must not run."""
    unmount(name)
    as_root(["tee", home(name) / "layers"], stdin=f"{layer}\n")
    mount(name)


def remove(name: str) -> None:
    """Unmount and delete the node's disk, if it exists."""
    unmount(name)
    as_root(["rm", "-rf", "--one-file-system", home(name)])


def unmount(name: str) -> None:
    """Unmount the node's disk, lazily if a process still uses it."""
    while is_mounted(name):
        if as_root(["umount", root(name)], check=False).returncode != 0:
            as_root(["umount", "--lazy", root(name)])


def make_as_found(name: str) -> None:
    """A new disk, in the state in which the field notes found the server.

    The scripts run once; what they have made is kept, and put back from then on.
    """
    script = as_found(name)
    made_from = [script, tree.recipe(), mirror.recipe()]
    state = f"as-found-{hashlib.sha256(chr(0).join(made_from).encode()).hexdigest()[:12]}"
    remove(name)
    if not is_kept(name, state):
        as_root(["rm", "-rf", "--one-file-system", *kept(name).glob("as-found-*")])
        mount(name)
        make = ["unshare", "--mount", "sh", "-euc", MAKE, "sh"]
        as_root([*make, mirror.directory(), root(name)], stdin=script)
        unmount(name)
        keep(name, state)
    put_back(name, state)


def mark_incomplete(name: str) -> None:
    """Record, before anything is undone, that the node is not yet as found."""
    as_root(["rm", "-f", home(name) / "complete"])


def mark_complete(name: str) -> None:
    """Record that the node is completely as found, memory included, and what /etc contains."""
    as_root(["tee", home(name) / "complete"], stdin=etc(name))


def is_as_found(name: str) -> bool:
    """Whether /etc is as recorded: a boot or a report changes nothing there, a converge does.

    A node that was changed manually does not count as found.
    """
    return is_complete(name) and (home(name) / "complete").read_text() == etc(name)


def etc(name: str) -> str:
    """Return the content of the node's /etc, for comparison."""
    return as_root(["sh", "-euc", ETC, "sh", home(name) / "upper" / "etc"]).stdout


def kept(name: str) -> Path:
    """Return the folder of the kept states of a node's disk; a reset keeps them."""
    return roster.cache() / "states" / name


def is_kept(name: str, state: str) -> bool:
    """Whether such a state exists; one that a killed run left incomplete does not count."""
    return (kept(name) / state).is_dir()


def keep(name: str, state: str) -> None:
    """Keep the current content of the disk as a state, so that `put_back` can restore it."""
    place = kept(name) / state
    half = place.with_name(f"{state}.half")
    as_root(["rm", "-rf", "--one-file-system", half, place])
    as_root(["mkdir", "-p", half])
    sources = [path for path in (home(name) / "upper", home(name) / "layers") if path.exists()]
    as_root(["cp", "-a", "--reflink=auto", *sources, half])
    as_root(["mv", "-T", half, place])


def put_back(name: str, state: str) -> None:
    """Restore a kept state of the disk; the node must not run."""
    unmount(name)
    written = [home(name) / part for part in ("upper", "work", "layers")]
    as_root(["rm", "-rf", "--one-file-system", *written])
    as_root(["mkdir", "-p", home(name)])
    as_root(["cp", "-a", "--reflink=auto", f"{kept(name) / state}/.", home(name)])
    mount(name)


def as_found(name: str) -> str:
    """The script that turns the shared tree into this node."""
    node = roster.NODES[name]
    scripts = ["every_node", "no_kernel", f"{node.family}_family", name]
    return "\n".join([variables(name), stand_ins(), *map(script, scripts)])


def variables(name: str) -> str:
    """Return the node's values for the scripts, as shell assignments."""
    node = roster.NODES[name]
    key = keys.host_key(name)
    values = {
        "NODE": name,
        "MIRROR": roster.MIRROR_ADDRESS,
        "HOST_KEY": key.read_text(),
        "HOST_KEY_PUBLIC": keys.public(key),
        "CLIENT_KEY": "" if node.bare else keys.public(roster.CLIENT_KEY),
        "PASSWORD": roster.password_file(name).read_text().strip() if node.bare else "",
    }
    return "\n".join(f"{key}={shlex.quote(value)}" for key, value in values.items())


def stand_ins() -> str:
    """A shell function that prints the stand-in of a name."""
    texts = {path.name: path.read_text() for path in sorted(STAND_INS.iterdir())}
    cases = [f"{name}) printf %s {shlex.quote(text)} ;;" for name, text in texts.items()]
    return "\n".join(["stand_in() { case $1 in", *cases, "esac; }"])


def script(name: str) -> str:
    """One of the scripts in as_found/."""
    return (SCRIPTS / f"{name}.sh").read_text()


def leftovers(name: str) -> str:
    """Return the script that restores the memory of the running node; often empty."""
    path = SCRIPTS / f"{name}.memory.sh"
    return path.read_text() if path.is_file() else ""

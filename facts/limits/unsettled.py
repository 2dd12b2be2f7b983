"""Unconfirmed changes of an interrupted run: the node undoes them unless they are confirmed."""

from gpu_node.facts.limits import confirmed
from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.protocol import Section, Unreadable
from gpu_node.facts.probe.records import change_of
from gpu_node.facts.probe.shell import assigned, shell

# Records that only root can read: see deploy/files/pending.sh. `about` is the line of replace.sh.
FOLDER = "/var/lib/gpu-node/pending"
_RECORDS = shell("limits/unsettled")
# One for each file, and for a few accounts; more are not ours, and settling each takes time.
MOST = 12
# Another version of gpu-node may have written them: the undo of its change must not be lost.
_THEN = (
    f"wait two minutes, in which the node undoes what gpu-node wrote, then remove what is left in "
    f"{FOLDER}"
)


class Waiting(State):
    """A replaced, unconfirmed file; `user` owns its home, `after` is the sha256 as written."""

    user: str
    path: str
    after: str


def listing(folder: str = FOLDER) -> str:
    """Return sh that prints the records."""
    return assigned(folder=folder) + _RECORDS


SECTION = Section("limits.unsettled", listing(), root=True, light=True)


def parse(text: str) -> tuple[Waiting, ...]:
    """Parse lines about a change, see `change_of`.

    One file may have several records, of parallel runs: they are settled together.
    """
    lines = [line for line in lines_of(text) if line.strip()]
    if len(lines) > MOST:
        raise Unreadable(f"{len(lines)} records of unconfirmed changes, more than {MOST}: {_THEN}")
    return tuple(dict.fromkeys(map(_waiting, lines)))


def _waiting(line: str) -> Waiting:
    change = change_of(line)
    # A user has no other file of these than the keys.
    if (
        change is not None
        and confirmed.is_confirmed(change.path)
        and (change.user == "root" or confirmed.is_keys(change.path))
    ):
        user = "" if change.user == "root" else change.user
        return Waiting(user=user, path=change.path, after=change.after)
    raise Unreadable(f"gpu-node did not write this record: {line[:160]!r}: {_THEN}")

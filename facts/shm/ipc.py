"""RemoveIPC of logind.conf: whether logind deletes a user's segments at the last logout.

systemd's compiled value is yes since version 212; RHEL 7 and its clones ship no. root and system
users are exempt (logind.conf(5)), and so is a user with lingering, who never counts as logged out.
"""

from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.protocol import Section, Unreadable
from gpu_node.facts.probe.readers import by_word, number
from gpu_node.facts.probe.shell import assigned, shell

SECTION = "shm.ipc"
# The file that the deploy writes.
OWN_FILE = "/etc/systemd/logind.conf.d/99-gpu-node.conf"
_ASK = shell("shm/ipc")
# The words of systemd's parse_boolean; another word is ignored, as systemd does.
_TRUE = frozenset({"1", "yes", "y", "true", "t", "on"})
_FALSE = frozenset({"0", "no", "n", "false", "f", "off"})
# systemd's own default for the last uid of system users (SYS_UID_MAX).
LAST_SYSTEM_UID = 999


class Setting(State):
    """A line that sets RemoveIPC; `is_later`: its file is newer than the running logind."""

    path: str
    line: int
    value: bool
    is_later: bool


class RemoveIpc(State):
    """What logind does at the last logout of the training user; `runs`: there is a logind.

    `settings` are the lines that set it, of which the last one decides; `compiled` counts where
    there is none. `uid` is None if the node does not know the user.
    """

    runs: bool
    user: str = ""
    uid: int | None = None
    lingers: bool = False
    compiled: bool = True
    settings: tuple[Setting, ...] = ()

    @property
    def decides(self) -> Setting | None:
        """The line that decides; None for the compiled value."""
        return self.settings[-1] if self.settings else None

    @property
    def removes(self) -> bool:
        """Whether the files let logind remove segments."""
        return self.decides.value if self.decides else self.compiled

    @property
    def concerns_user(self) -> bool:
        """Whether the segments of the training user can be removed at all."""
        return not self.lingers and self.uid is not None and self.uid > LAST_SYSTEM_UID


def section(user: str = "") -> Section:
    """Return the section; `user` trains, empty for the SSH user."""
    return Section(SECTION, assigned(user=user) + _ASK, light=True)


def parse(text: str) -> RemoveIpc:
    """Parse the lines of ipc.sh."""
    rows = by_word(text, "\t")
    if "absent" in rows:
        return RemoveIpc(runs=False)
    if "user" not in rows or "started" not in rows:
        raise Unreadable(f"its answer is incomplete: {text.strip()[-80:]!r}")
    name, uid, lingers = rows["user"][0].split("\t")
    started = number(rows["started"][0])
    compiled = [*map(_boolean, rows["compiled"])]
    return RemoveIpc(
        runs=True,
        user=name,
        uid=int(uid) if uid else None,
        lingers=lingers == "yes",
        compiled=compiled[0] is not False if compiled else True,
        settings=tuple(
            Setting(path=path, line=int(line), value=value, is_later=int(changed or 0) > started)
            for path, line, changed, word in (row.split("\t") for row in rows["set"])
            if (value := _boolean(word)) is not None
        ),
    )


def _boolean(word: str) -> bool | None:
    """Return systemd's meaning of a word; None for one that it ignores."""
    known = word.strip().lower()
    return True if known in _TRUE else False if known in _FALSE else None

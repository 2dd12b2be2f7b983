"""An account that only the processes of one test have: its passwd is mounted over the system's."""

from __future__ import annotations

from pathlib import Path

NAME, UID = "gn-trainer", 23456
# Another account, whose programs are not the first one's.
OTHER, OTHER_UID = "gn-other", 23457
_MOUNT = """
mount --bind "$1/passwd" /etc/passwd && mount --bind "$1/group" /etc/group || exit 1
shift
exec "$@"
"""


def make_accounts(folder: Path, home: Path) -> None:
    """Write the files that `with_accounts` mounts; the first account has this home."""
    ours = {NAME: (UID, home), OTHER: (OTHER_UID, folder / "other")}
    passwd = Path("/etc/passwd").read_text()
    group = Path("/etc/group").read_text()
    for name, (uid, place) in ours.items():
        # Without an x, no line of /etc/shadow is needed.
        passwd += f"{name}:*:{uid}:{uid}::{place}:/bin/bash\n"
        group += f"{name}:x:{uid}:\n"
    (folder / "passwd").write_text(passwd)
    (folder / "group").write_text(group)


def with_accounts(folder: Path, *words: str | Path) -> list[str]:
    """Return a command that runs another one as root, among these accounts."""
    given = [str(word) for word in words]
    return ["unshare", "--mount", "sh", "-c", _MOUNT, "sh", str(folder), *given]

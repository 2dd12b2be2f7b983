"""Who besides this machine's user may change what is in a folder, and where a path leads there."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
from contextlib import suppress
from pathlib import Path

_MOST_LINKS = 40
# Below that a group exists on every system; of others a directory server may not list all members.
_FIRST_GROUP = 100
_FIRST_ACCOUNT = 1000
_ACCESS_LIST = "system.posix_acl_access"


def others_in(folder: Path, found: os.stat_result) -> str:
    """Return who besides its owner may add to a folder; empty where that is this user alone.

    A group counts where another account is in it. In a sticky folder they cannot rename what is
    another's.
    """
    if found.st_mode & stat.S_IWOTH:
        return "every user"
    if not found.st_mode & stat.S_IWGRP:
        return ""
    with suppress(OSError):  # a file system without access lists
        if _ACCESS_LIST in os.listxattr(folder):  # the mode has its mask as the group's rights
            return "an access list"
    return "" if _is_private(found.st_gid) else f"the group {_name(found.st_gid)}"


def _is_private(gid: int) -> bool:
    """Whether no account but root and this user's is in a group."""
    try:
        group, account = grp.getgrgid(gid), pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    own = {"root", account.pw_name}
    is_own = (group.gr_name, gid) == (account.pw_name, account.pw_gid)
    if not (is_own or gid < _FIRST_GROUP) or not own.issuperset(group.gr_mem):
        return False
    # Accounts of the system, such as sync, have the group of root.
    return not any(
        each.pw_gid == gid and each.pw_name not in own and (gid or each.pw_uid >= _FIRST_ACCOUNT)
        for each in pwd.getpwall()
    )


def _name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def is_own(found: os.stat_result) -> bool:
    """Whether a file belongs to root or this user, or to the user who has started it by sudo."""
    own = {0, os.geteuid()}
    if os.geteuid() == 0 and (given := os.environ.get("SUDO_UID", "")).isdecimal():
        own.add(int(given))
    return found.st_uid in own


def check_way(path: Path) -> None:
    """Raise OSError where another user decides which file a path leads to.

    That is a link of another user, or another user's file at its end, in a folder that others may
    write: the kernel guards /tmp alone, and only against opening, not against a rename.
    """
    at, links = "/", 0
    whole = path if path.is_absolute() else Path.cwd() / path
    rest = [*reversed(whole.parts[1:])]
    while rest:
        name = rest.pop()
        folder, at = at, os.path.dirname(at) if name == ".." else os.path.join(at, name)
        try:
            found = os.lstat(at)
        except FileNotFoundError:
            return
        is_link = stat.S_ISLNK(found.st_mode)
        if (is_link or not rest) and not is_own(found):
            above = os.stat(folder)
            who = others_in(Path(folder), above) if is_own(above) else f"uid {above.st_uid}"
            if who:
                what = "a link of" if is_link else "belongs to"
                why = f"{what} another user, uid {found.st_uid}, where {who} may write"
                raise OSError(errno.EPERM, why, at)
        if is_link:
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), at)
            parts = Path(os.readlink(at)).parts
            at = "/" if parts[:1] == ("/",) else folder
            rest += reversed(parts[parts[:1] == ("/",) :])

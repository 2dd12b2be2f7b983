"""Reports the size, the checksum and the version of a libnccl.

It is a part of the program that runs on a node in the environment's own Python, 3.6 or newer.
"""

import base64
import grp
import hashlib
import os
import re
import select
import subprocess
import sys
import time

from gpu_node.facts.nccl.on_node.builds import built_in
from gpu_node.facts.nccl.on_node.loading import opened

# Loading a damaged library may end the process: it is loaded in a separate one.
ASK = (
    "import ctypes,sys\n"
    "n=ctypes.c_int()\n"
    "ctypes.CDLL(sys.argv[1]).ncclGetVersion(ctypes.byref(n))\n"
    "print(n.value)"
)
SECONDS, MOST_PRINTED = 20, 1 << 16
# The kernel's uid for an account that has no uid here.
NOBODY = 65534


def library(path, want_sum):
    """A libnccl: where it is, how large, and the version that it reports.

    Root opens none that another account may change: that could be any file by then.
    """
    if not os.path.exists(path):
        return None
    real, account = judged(path)
    size = os.lstat(real).st_size
    version, problem = asked_version(real, account)
    is_summed = not account and want_sum(version, size)
    return {
        "path": path,
        "size": size,
        "sha256": record_sum(real) if is_summed else None,
        "version": version,
        "problem": problem,
        "cuda": None if problem or account else (built_in(real) or ["", ""])[1] or None,
    }


def judged(path):
    """The file behind all links, and whose rights it gets: root's if only root may change it.

    The answer holds for that file alone, so it is what must be opened: another account may let a
    link lead elsewhere at any moment. NOBODY if several accounts may change it.
    """
    real = os.path.realpath(path)
    if os.geteuid() != 0:
        return real, 0
    ways = [real]
    while ways[-1] != os.path.dirname(ways[-1]):
        ways.append(os.path.dirname(ways[-1]))
    owners = set()
    for way in ways:
        state = os.lstat(way)  # everyone may write a link that was put there meanwhile
        owners.add(state.st_uid)
        is_sticky = way != real and state.st_mode & 0o1000
        if not is_sticky and others_write(way, state):
            owners.add(NOBODY)
    owners.discard(0)
    return real, owners.pop() if len(owners) == 1 else NOBODY if owners else 0


def others_write(path, state):
    """Whether more accounts than its owner and root may write there.

    It is the rule of facts/probe/writers.sh, but that no account has a private group.
    """
    if state.st_mode & 0o002:
        return True
    if not state.st_mode & 0o020:
        return False
    return state.st_gid != 0 or has_list(path) or bool({*grp.getgrgid(0).gr_mem} - {"root"})


def has_list(path):
    """Whether an access list names further accounts: the group's permission is then its mask."""
    try:
        return bool(os.getxattr(path, "system.posix_acl_access", follow_symlinks=False))
    except OSError:  # none, or a file system without
        return False


def become(uid):
    """Drop root's rights before a library of another account is loaded."""
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(uid)


def asked_version(path, account):
    """What ncclGetVersion of a judged file returns, or the problem if it fails."""
    if not os.path.isfile(path):
        return None, "it is not a regular file"
    clean = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    try:
        with subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", ASK, path],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=clean,
            preexec_fn=(lambda: become(account)) if account else None,
        ) as asked:
            lines, problem = printed(asked)
    except (OSError, subprocess.SubprocessError) as error:
        return None, str(error)
    if problem:
        return None, problem
    if asked.returncode or not lines:
        return None, lines[-1] if lines else "it ended with %d" % asked.returncode
    if not re.match(r"[0-9]{1,9}\Z", lines[-1]):
        return None, "its version is %r" % lines[-1][:40]
    return int(lines[-1]), None


def printed(asked):
    """The lines of a process, and why they are not all: it may print without end, or hang."""
    end, data = time.time() + SECONDS, b""
    while select.select([asked.stdout], [], [], max(0, end - time.time()))[0]:
        part = os.read(asked.stdout.fileno(), MOST_PRINTED)
        data += part
        if not part:
            return data.decode("utf-8", "replace").strip().splitlines(), None
        if len(data) > MOST_PRINTED:
            asked.kill()
            return [], "it prints more than %d bytes" % MOST_PRINTED
    asked.kill()
    return [], "no answer within %d s" % SECONDS


def record_sum(path):
    """The sha256 of a file in the form of a RECORD: base64 for URLs, without padding."""
    digest = hashlib.sha256()
    with opened(path) as source:
        for block in iter(lambda: source.read(1 << 20), b""):
            digest.update(block)
    return base64.urlsafe_b64encode(digest.digest()).decode("ascii").rstrip("=")

"""Reports the size, the checksum and the version of a libnccl.

It is a part of the program that runs on a node in the environment's own Python, 3.6 or newer.
"""

import base64
import hashlib
import os
import subprocess
import sys

from gpu_node.facts.nccl.on_node.builds import built_in
from gpu_node.facts.nccl.on_node.loading import opened

# Loading a damaged library may end the process: it is loaded in a separate one.
ASK = (
    "import ctypes,sys\n"
    "n=ctypes.c_int()\n"
    "ctypes.CDLL(sys.argv[1]).ncclGetVersion(ctypes.byref(n))\n"
    "print(n.value)"
)
SECONDS = 20
# The kernel's uid for an account that has no uid here.
NOBODY = 65534


def library(path, want_sum):
    """A libnccl: where it is, how large, and the version that it reports."""
    if not os.path.exists(path):
        return None
    real, account = judged(path)
    size = os.path.getsize(real)
    version, problem = asked_version(real, account)
    is_summed = not account and want_sum(version, size)
    return {
        "path": path,
        "size": size,
        "sha256": record_sum(real) if is_summed else None,
        "version": version,
        "problem": problem,
        "cuda": None if problem else (built_in(real) or ["", ""])[1] or None,
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
    found = set()
    for way in ways:
        state = os.lstat(way)  # everyone may write a link that was put there meanwhile
        found.add(state.st_uid)
        is_sticky = way != real and state.st_mode & 0o1000
        if state.st_mode & (0o002 if state.st_gid == 0 else 0o022) and not is_sticky:
            found.add(NOBODY)
    found.discard(0)
    return real, found.pop() if len(found) == 1 else NOBODY if found else 0


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
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", ASK, path],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            env=clean,
            timeout=SECONDS,
            preexec_fn=(lambda: become(account)) if account else None,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return None, str(error)
    words = done.stdout.decode("ascii", "replace").split()
    if done.returncode or not words:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        return None, lines[-1] if lines else "it ended with %d" % done.returncode
    return int(words[-1]), None


def record_sum(path):
    """The sha256 of a file in the form of a RECORD: base64 for URLs, without padding."""
    digest = hashlib.sha256()
    with opened(path) as source:
        for block in iter(lambda: source.read(1 << 20), b""):
            digest.update(block)
    return base64.urlsafe_b64encode(digest.digest()).decode("ascii").rstrip("=")

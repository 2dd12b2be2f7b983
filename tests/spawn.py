"""Starts the programs of tests by posix_spawn: in 1 ms, where a fork of pytest takes 15."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import gevent.os
import gevent.subprocess

_NAMES = (
    *("args", "executable", "preexec_fn", "close_fds", "pass_fds", "cwd", "env"),
    *("universal_newlines", "startupinfo", "creationflags", "shell"),
    *("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite"),
    *("restore_signals", "gid", "gids", "uid", "umask", "start_new_session", "process_group"),
)
# What only a fork can do for a child.
_BY_FORK = ("preexec_fn", "pass_fds", "cwd", "gid", "gids", "uid")


class Popen(gevent.subprocess.Popen):  # type: ignore[misc]
    """gevent's Popen; a child that needs nothing of a fork is spawned."""

    def _execute_child(self, *values: Any) -> None:
        given = dict(zip(_NAMES, values, strict=True))
        words = _words(given["args"], given["shell"])
        env = os.environ if given["env"] is None else given["env"]
        program = _found(given["executable"] or words[0], env)
        ours, theirs = _ends(given)
        if (
            program is None
            or any(given[name] for name in _BY_FORK)
            or given["umask"] >= 0
            or given["process_group"] is not None
            or not given["close_fds"]
            or any(0 <= end < 3 for end in theirs)
        ):
            super()._execute_child(*values)
            return
        spawn = partial(
            os.posix_spawn,
            program,
            words,
            env,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, end, number) for number, end in enumerate(theirs) if end != -1
            ],
            setsid=given["start_new_session"],
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ] if given["restore_signals"] else [],
        )
        self._loop.install_sigchld()
        self.pid = gevent.os.fork_and_watch(self._on_child, self._loop, True, spawn)
        self._child_created = True
        devnull = getattr(self, "_devnull", None)
        for end, other in zip(theirs, ours, strict=True):
            if end != -1 and other != -1 and end != devnull:
                os.close(end)
        if devnull is not None:
            os.close(devnull)
        self._closed_child_pipe_fds = True


def _words(args: Any, shell: bool) -> list[Any]:
    words = [args] if isinstance(args, (str, bytes, os.PathLike)) else list(args)
    return ["/bin/sh", "-c", *words] if shell else words


def _found(program: Any, env: Any) -> str | None:
    """Return the path of a program by the PATH of its environment, as execvpe finds it."""
    name = os.fsdecode(program)
    if "/" in name:
        return name if os.access(name, os.X_OK) else None
    path = os.pathsep.join(os.get_exec_path(env))
    return shutil.which(name, path=path)


def _ends(given: dict[str, Any]) -> tuple[Sequence[int], Sequence[int]]:
    """Return the parent's ends of stdin, stdout and stderr, and the child's; -1 where none is."""
    return (
        [given["p2cwrite"], given["c2pread"], given["errread"]],
        [given["p2cread"], given["c2pwrite"], given["errwrite"]],
    )


def install() -> None:
    """Have every `subprocess` of this process start programs so; after gevent's patches.

    What this process was given is no child's, as by Python's own close_fds.
    """
    for number in map(int, os.listdir("/proc/self/fd")):
        if number > 2:
            with suppress(OSError):
                os.set_inheritable(number, False)
    subprocess.Popen = gevent.subprocess.Popen = Popen  # type: ignore[misc]

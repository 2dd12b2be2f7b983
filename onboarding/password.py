"""A server's password: from stdin, the environment or a prompt, and shown to nobody."""

from __future__ import annotations

import ctypes
import getpass
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from typing_extensions import override

from onboarding.contact import ContactError

VARIABLE = "GPU_NODE_PASSWORD"
# No password is longer; a stdin without an end is not read to it.
_LONGEST = 4096


class Secret:
    """A text that neither a log, a traceback nor a dump of variables shows."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text; hold it nowhere, hand it straight to who needs it."""
        return self._text

    @override
    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__

    @override
    def __reduce__(self) -> str:
        raise TypeError("a secret is not written down")


def password(ask_for: str, from_stdin: bool) -> Secret | None:
    """Return the password that was given, or else the one that is asked for; None without one."""
    return given(from_stdin) or asked(ask_for)


def given(from_stdin: bool) -> Secret | None:
    """Return the first line of stdin where `from_stdin` is set, else what the environment has.

    No child process of ours will have the variable. Raises ContactError for a stdin without one.
    """
    found = _taken_from_environment()
    return _first_line() if from_stdin else found


def asked(ask_for: str) -> Secret | None:
    """Return what somebody types at a prompt, unseen; None without a terminal or an answer."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    with _interruptible(), warnings.catch_warnings():
        # Where the terminal cannot be kept from showing it, nothing is asked.
        warnings.simplefilter("error", getpass.GetPassWarning)
        try:
            return _secret(getpass.getpass(ask_for))
        except (EOFError, getpass.GetPassWarning):
            return None


def _secret(text: str) -> Secret | None:
    return Secret(text) if text else None


def _taken_from_environment() -> Secret | None:
    if VARIABLE not in os.environ:
        return None
    _overwrite()
    return _secret(os.environ.pop(VARIABLE))


def _overwrite() -> None:
    """Blot it out of what /proc/PID/environ, and with it `ps e`, shows of this process."""
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_void_p
    place = getenv(VARIABLE.encode())
    if place:
        ctypes.memset(place, ord("*"), len(os.fsencode(os.environ[VARIABLE])))


def _first_line() -> Secret:
    try:
        secret = _secret(
            sys.stdin.buffer.readline(_LONGEST).rstrip(b"\r\n").decode("utf-8", "strict")
        )
    except UnicodeDecodeError:
        secret = None  # the error has its bytes
    if secret is None:
        raise ContactError(
            "--password-stdin: the first line of stdin is empty or not UTF-8; it is to be the "
            "password alone"
        )
    return secret


@contextmanager
def _interruptible() -> Iterator[None]:
    """Have Ctrl-C raise: only so does the terminal show again what is typed."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)

"""A server's password: from stdin, the environment or a prompt; never printed or stored."""

import ctypes
import getpass
import os
import re
import signal
import sys
import warnings
from collections.abc import Callable
from itertools import chain, repeat

from typing_extensions import override

from gpu_node.deploy.engine.pyinfra_process import VARIABLE
from gpu_node.inventories.interrupt import handled
from gpu_node.onboarding.errors import ContactError

# No password is longer; a stdin without an end is not read to it.
_LONGEST = 4096
_TYPED = "what was typed"
_SURROGATE = re.compile("[\ud800-\udfff]")


class Secret:
    """A text that neither a log, a traceback nor a dump of variables shows."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text; hold it nowhere, hand it straight to who needs it."""
        return self._text

    @property
    def is_utf_8(self) -> bool:
        """Whether it can be sent to an sshd; bytes that were not decoded are half surrogates."""
        # The error of encode would have the text.
        return not _SURROGATE.search(self._text)

    @override
    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__

    @override
    def __reduce__(self) -> str:
        raise TypeError("a secret is not written down")


def given(from_stdin: bool) -> Secret | None:
    """Return the first line of stdin where `from_stdin` is set, else what the environment has.

    No child process of ours will have the variable. Raises ContactError for a stdin without one,
    and for a variable that is not UTF-8.
    """
    found = _taken_from_environment()
    return _first_line() if from_stdin else _checked(found, VARIABLE)


def is_attended() -> bool:
    """Whether a user at a terminal can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def asked(ask_for: str) -> Secret | None:
    """Return what the user types at a prompt, without echo; None without a terminal or an answer.

    Raises ContactError where it is not UTF-8.
    """
    if not is_attended():
        return None
    # Only where Ctrl-C raises does getpass show again what is typed.
    can_raise = handled(signal.default_int_handler, signal.SIGINT)
    with can_raise, warnings.catch_warnings():
        # Where the terminal cannot be kept from showing it, nothing is asked.
        warnings.simplefilter("error", getpass.GetPassWarning)
        try:
            return _checked(_secret(getpass.getpass(ask_for)), _TYPED)
        except (EOFError, getpass.GetPassWarning):
            return None
        except UnicodeDecodeError:
            pass  # the error has its bytes
    raise _not_utf_8(_TYPED)


def typed(login: str) -> Callable[[], Secret | None]:
    """Return what asks for the password of a login, and says that the one before was refused."""
    ask = f"Password of {login}: "
    prompts = chain([ask], repeat(f"That password is refused. {ask}"))
    return lambda: asked(next(prompts))


def _secret(text: str) -> Secret | None:
    return Secret(text) if text else None


def _checked(secret: Secret | None, where: str) -> Secret | None:
    """The same; the frames of what is raised have nothing of its text."""
    if secret is not None and not secret.is_utf_8:
        raise _not_utf_8(where)
    return secret


def _not_utf_8(where: str) -> ContactError:
    return ContactError(f"found {where} is not UTF-8; allowed: the password as UTF-8")


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
            "--password-stdin: found no password (the first line of stdin is empty or not UTF-8); "
            "allowed: the password alone on that line"
        )
    return secret

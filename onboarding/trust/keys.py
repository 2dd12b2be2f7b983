"""The controller's own keys: those it logs in with, and the public one that a server gets."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from paramiko import Agent, PKey, SSHException
from pyinfra.api.exceptions import PyinfraError
from pyinfra.connectors.ssh_util import load_key_with_certificate

from onboarding.contact import ContactError, Server

# Where nothing is named: what ssh itself takes.
_DEFAULTS = ("id_ed25519", "id_ecdsa", "id_rsa")


@contextmanager
def own_keys(server: Server) -> Iterator[list[PKey]]:
    """Hand out the private keys that open a server, those of the agent while it is connected.

    They are the ones that a deploy takes: the named one alone, else the agent's and those of
    ~/.ssh. What cannot be loaded without a passphrase is left out.
    """
    if server.key is not None:
        yield _loaded([server.key])
        return
    agent = _agent()
    try:
        in_agent = list(agent.get_keys()) if agent else []
        yield [*in_agent, *_loaded(_default_files())]
    finally:
        if agent:
            agent.close()


def public_key(server: Server) -> str:
    """Return the public key to let in, as `kind key comment`: the first one that logs in.

    Raises ContactError where there is none, its file cannot be read, or the file beside the private
    key is another key's.
    """
    if server.key is not None:
        return _public_of(server.key)
    with own_keys(server) as keys:
        found = [f"{key.get_name()} {key.get_base64()} {_comment(key)}".strip() for key in keys]
    # A key with a passphrase is of use through an agent alone, and that one has none.
    if not found:
        raise ContactError(
            "there is no key to log in with: no agent has one and ~/.ssh has none without a "
            "passphrase; make one (ssh-keygen -t ed25519), or name one (ssh: {key: FILE} in the "
            "inventory)"
        )
    return found[0]


def _agent() -> Agent | None:
    try:
        return Agent()
    except (SSHException, OSError):  # its socket is a dead one
        return None


def _default_files() -> list[Path]:
    try:
        folder = Path.home() / ".ssh"
    except RuntimeError:  # no home
        return []
    return [folder / name for name in _DEFAULTS if (folder / name).is_file()]


def _loaded(files: list[Path]) -> list[PKey]:
    keys = []
    for file in files:
        try:
            keys.append(load_key_with_certificate(str(file), allow_prompt=False))
        except (PyinfraError, SSHException, OSError, ValueError):
            continue
    return keys


def _public_of(file: Path) -> str:
    beside = file.with_name(f"{file.name}.pub")
    told = _first_key(file, beside) if beside.is_file() else ""
    try:
        key = load_key_with_certificate(str(file), allow_prompt=False)
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    except (PyinfraError, SSHException, ValueError):
        if told and file.exists():  # its passphrase is needed to compare them
            return told
        problem = (
            f"is no private key, or has a passphrase; put its public key beside it: {_anew(file)}"
            if file.exists()
            else f"is not there; make it: ssh-keygen -t ed25519 -f {file}"
        )
    else:
        own = f"{key.get_name()} {key.get_base64()}"
        if not told or told.split()[:2] == own.split():
            return told or own
        problem = f"is not the one of {beside}; make that one anew: {_anew(file)}"
    raise ContactError(f"the controller's key {file} {problem}")


def _first_key(private: Path, file: Path) -> str:
    """The line of the public key's file that lies beside the private one."""
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise ContactError(f"{file} cannot be read: {error.strerror}") from None
    words = next((line.split(None, 2) for line in lines if line.strip()), [])
    if len(words) < 2 or not words[1].startswith("AAAA"):
        raise ContactError(f"{file} is no public key; make it anew: {_anew(private)}")
    return " ".join(words).strip()


def _anew(private: Path) -> str:
    """What writes a public key's file beside the private one."""
    return f"ssh-keygen -y -f {shlex.quote(str(private))} >{shlex.quote(f'{private}.pub')}"


def _comment(key: PKey) -> str:
    """Of a key of the agent."""
    return str(getattr(key, "comment", "") or "")

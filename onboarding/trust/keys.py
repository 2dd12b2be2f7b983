"""The controller's keys: those it logs in with, and how a server is made to accept one."""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from paramiko import Agent, PKey, SSHException
from pyinfra.api.exceptions import PyinfraError
from pyinfra.connectors.ssh_util import load_key_with_certificate

from gpu_node.deploy.console import UserConsole
from gpu_node.deploy.engine.scripts import as_run
from gpu_node.deploy.files import replace as replacement
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.training_user import HOME
from gpu_node.inventories.checks.files import is_encrypted
from gpu_node.inventories.connection.ssh_config import keys as configured
from gpu_node.inventories.errors import reason, shown, worded
from gpu_node.inventories.escape import visible
from gpu_node.onboarding.errors import ContactError, Stopped
from gpu_node.onboarding.trust.host_keys import Server
from gpu_node.onboarding.trust.session import ROOT, Session

# Where nothing is named: what ssh itself takes.
_DEFAULTS = ("id_ed25519", "id_ecdsa", "id_rsa")
_ALLOWED = "a key without a passphrase, or one of an agent"
_SECONDS = 30
_CHANGED, _THERE, _RESTRICTED = "changed", "there", "restricted"
_KEY = re.compile(r"[a-z0-9@.-]+ [A-Za-z0-9+/]+=*( [^\x00-\x1f\x7f]*)?")


@contextmanager
def own_keys(server: Server) -> Iterator[list[PKey]]:
    """Hand out the private keys that open a server, those of the agent while it is connected.

    They are the ones that a deploy takes: the named one alone, else the agent's, those that
    ssh_config names for the address, and those of ~/.ssh. What cannot be loaded without a
    passphrase is left out.
    """
    if server.key is not None:
        yield _loaded([server.key])
        return
    agent = _agent()
    try:
        in_agent = list(agent.get_keys()) if agent else []
        files = dict.fromkeys([*configured(server.address), *_default_files()])
        yield [*in_agent, *_loaded(list(files))]
    finally:
        if agent:
            agent.close()


def public_key(server: Server) -> str:
    """Return the public key to let in, as `kind key comment`: the first one that logs in.

    Raises ContactError where there is none, or its file cannot be read.
    """
    if server.key is not None:
        return _public_of(server.key)
    with own_keys(server) as keys:
        found = [
            f"{key.get_name()} {key.get_base64()} {getattr(key, 'comment', '') or ''}".strip()
            for key in keys
        ]
    # A key with a passphrase is of use through an agent alone, and that one has none.
    if not found:
        raise ContactError(
            "found no key to log in with (no agent has one and ~/.ssh has none without a "
            "passphrase); next: make one (ssh-keygen -t ed25519), or name one (ssh: {key: FILE} in "
            "the inventory)"
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
    """Return the public key of a private one, with the comment of the file beside it.

    Of a key with a passphrase it is what that file has; a file of another key is passed over.
    """
    public = _first_key(file.with_name(f"{file.name}.pub"))
    try:
        key = load_key_with_certificate(str(file), allow_prompt=False)
    except OSError as error:
        problem = worded(reason(error), "cannot be read")
    except (PyinfraError, SSHException, ValueError):
        if public and file.exists():
            return public
        problem = (
            "found no private key, or one that has a passphrase; next: put its public key beside "
            f"it: {_anew(file)}"
            if file.exists()
            else "found no such file (it is the controller's key); next: create it: "
            f"ssh-keygen -t ed25519 -f {shlex.quote(str(file))}"
        )
    else:
        own = f"{key.get_name()} {key.get_base64()}"
        return public if public.split()[:2] == own.split() else own
    raise ContactError(f"{file}: {problem}")


def _first_key(file: Path) -> str:
    """Return the public key in a file; empty where it has none."""
    try:
        lines = lines_of(file.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return ""
    words = next((line.split(None, 2) for line in lines if line.strip()), [])
    return " ".join(words).strip() if words[1:] and words[1].startswith("AAAA") else ""


def _anew(private: Path) -> str:
    """What writes a public key's file beside the private one."""
    return f"ssh-keygen -y -f {shlex.quote(str(private))} >{shlex.quote(f'{private}.pub')}"


def install_key(session: Session, public: str) -> bool:
    """Put a public key, `kind key comment`, into the user's authorized_keys; whether that changed.

    A session that was opened by key needs no line: one more would undo what the server's owner
    restricts that key to (from="..."). A key that is in already stays as it is; where it has
    options, which then do not let this machine in, ContactError is raised. All other bytes stay;
    home, folder and file are closed to others as far as sshd insists. Raises ContactError.
    """
    if session.by == "key":
        return False
    line = public.strip()
    if not _KEY.fullmatch(line):
        raise ContactError(f"{visible(line)[:60]!r} is not a public key; nothing was changed")
    backups = replacement.backups() if session.server.user == ROOT else ""
    done = session.run(as_run("authorize", HOME, line=line, backups=backups), _SECONDS)
    outcome = done.out[-1] if done.out else ""
    if done.code == 0 and outcome == _RESTRICTED:
        raise ContactError(
            f"{session.server.login}: its authorized_keys has this machine's key with options "
            '(from="...", command="..." and the like) that do not let it in: add this '
            "machine's address to that line, or remove it; it was not changed"
        )
    if done.code != 0 or outcome not in (_CHANGED, _THERE):
        problem = visible(done.err or outcome or f"exit {done.code}")
        raise ContactError(f"{session.server.login}: the key could not be let in: {problem}")
    return outcome == _CHANGED


def without_passphrase(key: Path | None, console: UserConsole) -> Path | None:
    """Return the key to write into an inventory: None for one that the agent has by now.

    On a terminal, and where an agent runs, ssh-add asks for the passphrase. Stopped: there is
    neither, or ssh-add ended with an error.
    """
    if key is None or not is_encrypted(key):
        return key
    command = f"ssh-add {shlex.quote(str(key))}"
    if not console.is_attended or not os.environ.get("SSH_AUTH_SOCK"):
        lacks = "no agent" if console.is_attended else "no terminal to ask for it"
        start = "" if os.environ.get("SSH_AUTH_SOCK") else 'eval "$(ssh-agent)"; '
        why, then = f"encrypted with a passphrase, and {lacks}", f"{start}{command}; then no --key"
        raise Stopped(f"--key: {worded(shown(str(key)), why, _ALLOWED, then)}")
    console.say(f"{key} has a passphrase: {command} gives it to the agent, whose keys are used")
    try:
        code = subprocess.run(["ssh-add", key], check=False).returncode
    except OSError as error:
        raise Stopped(f"--key: {worded(str(error), '', _ALLOWED)}") from None
    if code:
        why = f"encrypted with a passphrase, and {command} ended with {code}"
        raise Stopped(f"--key: {worded(shown(str(key)), why, _ALLOWED)}")
    return None

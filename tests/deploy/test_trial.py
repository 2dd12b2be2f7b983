"""The proof logs in as the account whose way in was changed, not as the SSH user alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyinfra.api import Host, State
from pyinfra.api.exceptions import ConnectError
from pyinfra.connectors.util import CommandOutput, OutputLine

from gpu_node.deploy.engine.scripts import script
from gpu_node.deploy.files import confirm as confirmation
from gpu_node.deploy.files import trial
from gpu_node.deploy.files.confirm import Trial
from gpu_node.deploy.files.replace import confirm
from gpu_node.facts.ask import session
from gpu_node.facts.probe.training_user import AS_USER, HOME
from tests import node_scripts
from tests.deploy.accounts import USER_ID
from tests.node_scripts import Ended, run, run_apart

# Each program notes its words; what ssh answers is in `ended` (a code) and `words`.
SSH = """#!/bin/sh
for each; do case $each in UserKnownHostsFile=*) cat "${{each#*=}}" >{folder}/known ;; esac; done
echo "$(id -un): $*" >>{folder}/logins
cat {folder}/words >&2 2>/dev/null
exit "$(cat {folder}/ended)"
"""
SSHD = """#!/bin/sh
printf 'port 2222\\nlistenaddress 0.0.0.0:2222\\nhostkey {folder}/host_key\\n'
"""
HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIARmLr1ddHzaKTPq6utmFfI2IbnTs+x/MRBmhf4hpqgQ root@n"


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with stand-ins of ssh and sshd, where all users may write, as su's shell does."""
    folder = tmp_path / "node"
    folder.mkdir()
    for name, text in (("ssh", SSH), ("sshd", SSHD)):
        (folder / name).write_text(text.format(folder="/mnt/node"))
        (folder / name).chmod(0o755)
    (folder / "host_key.pub").write_text(f"{HOST_KEY}\n")
    monkeypatch.setattr(node_scripts, "FIRST_IN_PATH", "/mnt/node:")
    return folder


def tried(node: Path, shell: str, ended: int, words: str = "", has_key: bool = True) -> Ended:
    """Try a login of `_apt`, which ends so."""
    (node / "ended").write_text(f"{ended}\n")
    (node / "words").write_text(words)
    before = [
        "mount -t tmpfs -o mode=755 tmpfs /mnt; mkdir -p /mnt/home/.ssh",
        f"cp -r {node} /mnt/node; chmod 777 /mnt/node",
        f"sed 's|^_apt:.*|_apt:x:{USER_ID}:65534::/mnt/home:/bin/sh|' /etc/passwd >/mnt/passwd",
        "mount --bind /mnt/passwd /etc/passwd",
        "touch /mnt/home/.ssh/id_ed25519" if has_key else ":",
        "chown -R _apt /mnt/home",
    ]
    command = script("trial", user="_apt", as_user=AS_USER, home_of=HOME)
    copied = f"cp /mnt/node/known /mnt/node/logins {node} 2>/dev/null || :"
    return run_apart(command, shell, "\n".join(before), [copied])


@pytest.mark.parametrize("ended", [0, 1])
def test_a_login_to_itself(node: Path, shell: str, ended: int) -> None:
    """As the account, with its own key; the node's sshd is known by its own host key alone.

    An account's shell may run nothing: that is a login all the same.
    """
    done = tried(node, shell, ended)
    assert (done.code, done.out, done.err) == (0, "login\n", "")
    assert (node / "known").read_text() == f"* {HOST_KEY}\n"
    who, words = (node / "logins").read_text().split(": ", 1)
    assert who == "_apt"
    assert words.endswith(" -p 2222 _apt@127.0.0.1 exit 0\n")
    for option in ("BatchMode=yes", "StrictHostKeyChecking=yes", "ForwardAgent=no"):
        assert f"-o {option}" in words
    assert "-i /mnt/home/.ssh/id_ed25519" in words


def test_a_login_that_is_refused(node: Path, shell: str) -> None:
    """A session of su opens; why there was no login is reported."""
    words = "Warning: x\n_apt@127.0.0.1: Permission denied (publickey).\n"
    done = tried(node, shell, 255, words)
    assert (done.code, done.err) == (0, "")
    assert done.out == "session _apt@127.0.0.1: Permission denied (publickey).\n"


def test_an_account_without_a_key(node: Path, shell: str) -> None:
    """Nothing is tried by SSH."""
    done = tried(node, shell, 0, has_key=False)
    assert (done.code, done.out) == (0, "session _apt has no key here\n")
    assert not (node / "logins").exists()


def test_no_such_account(node: Path, shell: str) -> None:
    """No user is locked out."""
    command = script("trial", user="no-such-user", as_user=AS_USER, home_of=HOME)
    done = run(command, shell)
    assert (done.code, done.out, done.err) == (0, "absent\n", "")


def test_no_session_opens(node: Path, shell: str) -> None:
    """As where PAM cannot grant the limits of an account."""
    (node / "su").write_text(
        "#!/bin/sh\necho 'su: cannot open session: Permission denied' >&2; exit 1\n"
    )
    (node / "su").chmod(0o755)
    done = tried(node, shell, 0)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("cannot open a session of _apt: su: cannot open session")


class Node:
    """A node of the inventory."""

    def __init__(self, user: str) -> None:
        self.data = {"ssh_user": user}
        self.name, self.print_prefix = "n", "[n] "
        self.state = State()


def host(user: str = "root") -> Host:
    """A node whose SSH user that is."""
    return cast(Host, Node(user))


class Session:
    """A session over which the script ends so."""

    def __init__(self, done: bool, out: str, err: str = "") -> None:
        lines = [OutputLine("stdout", out)] if out else []
        self.answer = done, CommandOutput([*lines, *([OutputLine("stderr", err)] if err else [])])

    def run_shell_command(self, *_: Any, **__: Any) -> Any:
        """What the node answers."""
        return self.answer


@pytest.fixture
def logins(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The logins from here; one of `alice` opens where the list begins with `open`."""
    tried: list[str] = []

    @contextmanager
    def fresh(host: Host, user: str = "") -> Iterator[None]:
        tried.append(user)
        if tried[0] != "open":
            raise ConnectError("Authentication error")
        yield

    monkeypatch.setattr(trial, "fresh", fresh)
    return tried


def trouble(session: Session, on: Host, user: str = "alice") -> str:
    """What is wrong with an account's session."""
    return trial.trouble(on, cast(Any, session), user, {})


def test_the_ssh_users_own_session(logins: list[str]) -> None:
    """It is open already."""
    assert trouble(Session(False, ""), host("alice")) == ""
    assert trouble(Session(False, ""), host(), user="") == ""
    assert trouble(Session(True, "absent"), host()) == ""
    assert logins == []


def test_a_login_of_the_account(logins: list[str], caplog: pytest.LogCaptureFixture) -> None:
    """From the node to itself, or from here: no trouble is reported."""
    assert trouble(Session(True, "login"), host()) == ""
    assert logins == []
    logins.append("open")
    assert trouble(Session(False, "", "no session"), host()) == ""
    assert (logins, caplog.text) == (["open", "alice"], "")


def test_no_login_but_a_session(logins: list[str], caplog: pytest.LogCaptureFixture) -> None:
    """That is logged; from here it is tried once, as sshd punishes addresses for failures."""
    node = host()
    for _ in range(2):
        assert trouble(Session(True, "session alice has no key here"), node) == ""
    assert logins == ["alice"]
    assert "alice: no login was tried (alice has no key here): a session of su opens" in caplog.text


def test_neither(logins: list[str]) -> None:
    """The change is not kept."""
    assert trouble(Session(False, "", "cannot open a session of alice: x"), host()) == (
        "cannot open a session of alice: x"
    )
    assert trouble(Session(False, ""), host()) == "cannot open a session of alice"


def test_each_account_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose home the file is in, and who trains; each once, before the change is confirmed."""
    story: list[str] = []

    @contextmanager
    def fresh(host: Host, user: str = "") -> Iterator[Session]:
        yield Session(True, "")

    def tell(host: Host, session: object, user: str, arguments: object) -> str:
        story.append(user)
        return "cannot open a session of bob" if user == "bob" else ""

    monkeypatch.setattr(confirmation, "fresh", fresh)
    monkeypatch.setattr(confirmation, "trouble", tell)
    assert confirmation.not_kept(host(), Trial("/x", "", "alice", ["alice"]), {}) == ""
    assert story == ["alice"]
    reported = confirmation.not_kept(host(), Trial("/x", accounts=["bob"]), {})
    assert reported == "cannot open a session of bob"


def test_the_password_stays_the_ssh_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another account is never offered it."""

    class Connector:
        def __init__(self, state: object, host: object) -> None:
            self.data: dict[str, Any] = {"ssh_user": "root", "ssh_password": "x", "ssh_port": 2222}

        def connect(self) -> None:
            """Log in."""

    monkeypatch.setattr(session, "tune", lambda connector: None)
    node = cast(Host, SimpleNamespace(connector=Connector(None, None), state=None))
    with session.fresh(node, "alice") as connector:
        assert connector.data == {"ssh_user": "alice", "ssh_password": None, "ssh_port": 2222}
    with session.fresh(node) as connector:
        assert connector.data["ssh_user"] == "root"


def test_nothing_is_confirmed_without_it(backups: Path, shell: str, tmp_path: Path) -> None:
    """Where nothing waits there is nothing to confirm."""
    (tmp_path / "conf").write_text("x")
    assert run(confirm(str(tmp_path / "conf")), shell).code == 1

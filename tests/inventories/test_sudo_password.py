"""A password for sudo, typed once: a real sudo gets it, and no account is locked by a wrong one."""

from __future__ import annotations

import os
import pty
import re
import resource
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import gevent
import pytest
from gevent import get_hub
from pyinfra.api import Host

from gpu_node.deploy.ssh.root import require_sudo
from gpu_node.facts.ask.execute import execute
from gpu_node.facts.ask.gather import chosen, connect
from gpu_node.facts.ask.session import ProbeError, probe
from gpu_node.facts.ask.sudo import why_refused
from gpu_node.inventories.connection.capped import Answer
from gpu_node.inventories.connection.sudo import SUDO
from gpu_node.onboarding.trust.login import open_by_key
from tests.cli.test_secrets import World, looking
from tests.commands import BIN, REPOSITORY, environment
from tests.onboarding.serving import at_home
from tests.real_sudo import ASKS, ATTEMPT, FREE, PASSWORD, TTY, USER, Node, nodes

SCRIPT = "id -u\ncat"


@pytest.fixture(autouse=True)
def forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test begins without a password."""
    at_home(monkeypatch, tmp_path)
    yield
    SUDO.__init__()  # type: ignore[misc]


def as_root(folder: Path, password: str = PASSWORD) -> dict[str, tuple[bool, list[str]]]:
    """What each node answers to a script of root with a stdin, all at once; what it printed."""
    SUDO.give(password)

    def one(host: Host) -> tuple[bool, list[str]]:
        connect(state, host)
        done, output = execute(host.connector, SCRIPT, 20, {"_sudo": True}, ["its", "stdin"])
        return done, [*output.stdout_lines, *output.stderr_lines]

    with chosen(str(folder / "nodes.py")) as (state, hosts):
        work = [gevent.spawn(one, host) for host in hosts]
        gevent.joinall(work, raise_error=True)
        return {host.name: each.value for host, each in zip(hosts, work, strict=True)}


ROOT = (True, ["0", "its", "stdin"])


def test_root_gets_a_script_with_its_stdin(tmp_path: Path) -> None:
    """Where sudo asks and where it does not; the password is in no command line."""
    with nodes(tmp_path, [ASKS, FREE, ASKS]) as made:
        assert as_root(tmp_path) == dict.fromkeys(("n1", "n2", "n3"), ROOT)
        given = [password_in(each) for each in made]
    assert given == [2, 1, 2]
    assert not [each for node in made for each, _ in node.sent if PASSWORD.encode() in each]
    assert not any(ATTEMPT in each.log for each in made)


def password_in(node: Node) -> int:
    """How many commands of a node had the password in their stdin."""
    return sum(PASSWORD.encode() in stdin for _, stdin in node.sent)


def test_a_wrong_password_is_tried_once(tmp_path: Path) -> None:
    """On one node; a central account takes few attempts."""
    with nodes(tmp_path, [ASKS] * 4) as made:
        answers = as_root(tmp_path, "wrong")
    (wrong, *others) = sorted(words for _, (words,) in answers.values())
    assert wrong == "sudo refuses this password: Sorry, try again."
    assert {each.split(": ")[0] for each in others} == {"this password was not tried"}
    assert sum(each.log.count(ATTEMPT) for each in made) == 1
    assert "1 incorrect" in "".join(each.log for each in made)
    assert SUDO.wrong is not None and SUDO.wrong[1] == wrong


def test_a_node_that_asks_for_none_proves_nothing(tmp_path: Path) -> None:
    """The next one is asked alone, too."""
    with nodes(tmp_path, [FREE, ASKS, ASKS]) as made:
        as_root(tmp_path, "wrong")
        assert sum(each.log.count(ATTEMPT) for each in made) == 1


def test_a_node_that_needs_none_gets_none(tmp_path: Path) -> None:
    """With log_input sudo writes a file of what its command gets by stdin."""
    logged = f"{FREE}\nDefaults log_input, iolog_dir={tmp_path}/io, !compress_io"
    with nodes(tmp_path, [logged]):
        assert as_root(tmp_path) == {"n1": ROOT}
    files = [each for each in (tmp_path / "io").rglob("*") if each.is_file()]
    assert files and not [each for each in files if PASSWORD.encode() in each.read_bytes()]


def test_a_node_that_prints_it() -> None:
    """No report has it as the words of sudo."""
    SUDO.give(PASSWORD)

    def echoed(_: str, stdin: bytes) -> Answer:
        return Answer(1, [("stderr", stdin)])

    feed = SUDO.feed("n1", echoed)
    assert feed is not None and feed.refusal == "it prints the password, and nothing else is shown"


def test_a_node_is_asked_once_by_all() -> None:
    """By two tasks at once, too: a second attempt may lock an account."""
    SUDO.give(PASSWORD)
    tried: list[str] = []

    def slow(line: str, _: bytes) -> Answer:
        gevent.sleep(0.01)
        tried.append(line)
        return Answer(0)

    for names in (["n1", "n1"], ["n2", "n2"]):
        gevent.joinall([gevent.spawn(SUDO.feed, name, slow) for name in names], raise_error=True)
    assert len(tried) == 2


def test_a_password_that_is_changed_meanwhile(tmp_path: Path) -> None:
    """It is sent once more, and not with each command that follows."""
    with nodes(tmp_path, [ASKS]) as (node,):
        assert as_root(tmp_path) == {"n1": ROOT}
        _change_password(node)
        for _ in range(3):
            assert not as_root(tmp_path)["n1"][0]
        assert node.log.count(ATTEMPT) == 1


def test_a_probe_takes_a_refusal_to_heart(tmp_path: Path) -> None:
    """Its sudo is another than that of the connector; neither sends the password once more."""
    SUDO.give(PASSWORD)
    with (
        nodes(tmp_path, [ASKS]) as (node,),
        chosen(str(tmp_path / "nodes.py")) as (state, (host,)),
    ):
        connect(state, host)
        assert SUDO.feed("n1", lambda *_: Answer(0)) is not None
        _change_password(node)
        for _ in range(3):
            found = probe(host, only=("ssh.sshd", "host.name"))
            assert "sudo" in (found.ssh.sudo_refusal or "")
        assert node.log.count(ATTEMPT) == 1


def test_a_session_takes_a_refusal_to_heart(tmp_path: Path) -> None:
    """That of a server that is to become a node."""
    SUDO.give(PASSWORD)
    with nodes(tmp_path, [ASKS]) as (node,):
        server = node.sshd.server(user=USER, key=tmp_path / "key")
        with open_by_key(server, node.sshd.host_key) as session:
            assert session.sudo_refusal() == ""
            _change_password(node)
            for _ in range(3):
                assert session.as_root("id -u", 20).code == 1
        assert node.log.count(ATTEMPT) == 1


def _change_password(node: Node) -> None:
    shadow = node.folder / "shadow"
    shadow.write_text(re.sub(r"(?m)^(gn-alice:)[^:]*", r"\1!", shadow.read_text()))


def test_silent_nodes_hold_up_no_long_queue() -> None:
    """Until one accepts it they are asked one after the other: three that are silent are enough."""
    SUDO.give(PASSWORD)
    asked: list[bytes] = []

    def silent(_: str, stdin: bytes) -> Answer:
        asked.append(stdin)
        raise TimeoutError

    feeds = [SUDO.feed(f"n{number}", silent) for number in range(9)]
    assert len(asked) == 3 and SUDO.wrong is None
    assert feeds[-1] is not None
    refused = why_refused(feeds[-1].refusal, USER)
    assert "3 nodes" in refused.words and "no node has accepted" in refused.reason
    assert "--limit" in refused.fix


def test_an_answer_after_silent_nodes() -> None:
    """Where one has accepted it, the next ones are asked."""
    SUDO.give(PASSWORD)

    def silent(*_: object) -> Answer:
        raise TimeoutError

    SUDO.feed("n0", lambda *_: Answer(0))
    for number in range(1, 5):
        SUDO.feed(f"n{number}", silent)
    feed = SUDO.feed("n9", lambda *_: Answer(0))
    assert feed is not None and feed.refusal == ""


def test_no_core_dump_has_it() -> None:
    """Of this process and its children."""
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
    SUDO.give(PASSWORD)
    try:
        assert resource.getrlimit(resource.RLIMIT_CORE)[0] == 0
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)


WORDS = {
    "requiretty": (TTY, "20000::::::", "requiretty is set in the node's sudoers"),
    "not in sudoers": ("", "20000::::::", f"does not allow {USER} to run commands as root"),
    "a command alone": (f"{USER} ALL=(ALL) /bin/ls", "20000::::::", "does not allow"),
    "an expired account": (ASKS, "20000:::::1:", f"PAM refuses the account of {USER}"),
    "a password to change": (ASKS, "0::99999::::", f"PAM refuses the account of {USER}"),
}


@pytest.mark.parametrize("name", WORDS)
def test_another_refusal_is_named(tmp_path: Path, name: str) -> None:
    """It says nothing against the password: the next node is asked."""
    sudoers, days, reason = WORDS[name]
    with nodes(tmp_path, [sudoers], days):
        done, words = as_root(tmp_path)["n1"]
    assert not done and reason in why_refused("\n".join(words), USER).reason
    assert SUDO.wrong is None


# sudo 1.9.13 with pam_unix and pam_google_authenticator: the password ends its stdin.
ONE_TIME = "\nsudo: no password was provided\nsudo: a password is required\n"


def test_a_second_prompt_is_named() -> None:
    """No text of ours is sent to it."""
    assert "one-time code" in why_refused(ONE_TIME, USER).reason


@pytest.mark.parametrize(
    ("sudoers", "refusal"), [(ASKS, None), (FREE, None), (TTY, "must have a tty")]
)
def test_what_needs_root_is_read(tmp_path: Path, sudoers: str, refusal: str | None) -> None:
    """By one sudo of the probe, which begins it itself."""
    SUDO.give(PASSWORD)
    with (
        nodes(tmp_path, [sudoers]) as (node,),
        chosen(str(tmp_path / "nodes.py")) as (state, (host,)),
    ):
        connect(state, host)
        found = probe(host, only=("ssh.sshd", "host.name", "ssh.host_keys"))
        assert (found.ssh.sudo_refusal is None) == (refusal is None)
        assert refusal is None or refusal in (found.ssh.sudo_refusal or "")
        if refusal is None:
            require_sudo(host)
        else:
            with pytest.raises(ProbeError, match="requiretty is set"):
                require_sudo(host)
    assert not [each for each, _ in node.sent if PASSWORD.encode() in each]


def test_a_server_that_is_to_become_a_node(tmp_path: Path) -> None:
    """No connector of pyinfra's is between; the pre-flight check is a script of root."""
    SUDO.give(PASSWORD)
    with nodes(tmp_path, [ASKS]) as (node,):
        server = node.sshd.server(user=USER, key=tmp_path / "key")
        with open_by_key(server, node.sshd.host_key) as session:
            assert session.sudo_refusal() == ""
            assert session.as_root(SCRIPT, 20, "its\nstdin\n").out == ["0", "its", "stdin"]
        SUDO.__init__()  # type: ignore[misc]
        SUDO.give("wrong")
        with open_by_key(server, node.sshd.host_key) as session:
            assert "the password is not the one of" in session.sudo_refusal()
            assert session.as_root("id -u", 20).code == 1
        assert node.log.count(ATTEMPT) == 1


def _read(terminal: int) -> bytes:
    """Return what a terminal shows next; nothing once its last program has ended."""
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""


def typed(password: str, *words: str) -> tuple[int, str]:
    """Run a command at a terminal at which a user types a password; return how it ended."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(REPOSITORY)
        os.execve(BIN / "gpu-node", ["gpu-node", *words], {**environment(), "COLUMNS": "200"})
    shown, is_typed = b"", False
    # In a thread: the nodes are greenlets of this one.
    while part := get_hub().threadpool.apply(_read, (terminal,)):
        shown += part
        if not is_typed and b"Password for sudo on the nodes: " in shown:
            os.write(terminal, f"{password}\n".encode())
            is_typed = True
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(terminal)
    return code, shown.decode()


def test_a_command_at_a_terminal(tmp_path: Path) -> None:
    """What is typed is not shown; a wrong one ends it before any report."""
    inventory = str(tmp_path / "nodes.py")
    with nodes(tmp_path, [ASKS, ASKS]) as made:
        code, shown = typed("wrong", "hostfile", inventory, "--ask-sudo-password")
        assert code == 1 and sum(each.log.count(ATTEMPT) for each in made) == 1
        assert "gpu-node: --ask-sudo-password: found a password that is wrong on n" in shown
        assert "next: run it again; --limit selects" in shown and "wrong\r" not in shown
        site = tmp_path / "new"
        node = f"n1=127.0.0.1:{made[0].sshd.port}"
        access = ["--user", USER, "--key", str(tmp_path / "key"), "--sudo", "--ask-sudo-password"]
        access += ["--known-hosts", str(tmp_path / "known_hosts")]
        _, refused = typed("wrong", "init", str(site), node, *access)
        assert f"next: gpu-node init {site} --again --ask-sudo-password" in refused
        assert "--limit" not in refused and (site / "site.yml").exists()
        seen = SimpleNamespace(commands=set(), environments=set())
        with looking(cast(World, seen)):
            code, shown = typed(PASSWORD, "hostfile", inventory, "--ask-sudo-password")
    processes = [*seen.commands, *(variables for _, variables in seen.environments)]
    assert len(processes) > 20 and not [each for each in processes if PASSWORD.encode() in each]
    assert "GPU" in shown and PASSWORD not in shown

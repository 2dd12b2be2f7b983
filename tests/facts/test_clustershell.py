"""The probe through ClusterShell: the answers and the errors of SSH, no gateway, and its end."""

from __future__ import annotations

import base64
import json
import os
import resource
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from ClusterShell.Communication import StdErrMessage
from paramiko import AuthenticationException, Channel, ECDSAKey, SSHException
from typing_extensions import override

from gpu_node.facts.ask.gather import Answer, gather
from gpu_node.facts.ask.via import clustershell, engines, on_clustershell
from gpu_node.facts.ask.via.login import failure, words
from gpu_node.facts.ask.via.question import Question
from gpu_node.facts.ssh.options import STRICT
from gpu_node.inventories.connection.refused_keys import explained, refusal
from tests.commands import run
from tests.hostile_nodes import reply
from tests.onboarding.serving import Sshd, at_home, serving

pytestmark = pytest.mark.slow

MINE, OTHER = ECDSAKey.generate(), ECDSAKey.generate()
Data = dict[str, Any]


@pytest.fixture
def sshd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    """A server that lets MINE in, with the site's ClusterShell without a tree."""
    at_home(monkeypatch, tmp_path)
    monkeypatch.setenv("CLUSTERSHELL_CFGDIR", str(tmp_path / "clustershell"))
    (tmp_path / "server").mkdir()
    with serving(tmp_path / "server") as server:
        server.authorized = [MINE]
        MINE.write_private_key_file(str(tmp_path / "key"))
        OTHER.write_private_key_file(str(tmp_path / "other"))
        (tmp_path / "known hosts").write_text(f"[127.0.0.1]:{server.port} {server.host_key}\n")
        (tmp_path / "empty").touch()
        changed = f"{OTHER.get_name()} {OTHER.get_base64()}"
        (tmp_path / "changed").write_text(f"[127.0.0.1]:{server.port} {changed}\n")
        yield server


def data(sshd: Sshd, **more: Any) -> Data:
    """What the inventory has of a node that this server stands for."""
    folder = sshd.home.parent
    return {
        "ssh_hostname": "127.0.0.1",
        "ssh_port": sshd.port,
        "ssh_user": "root",
        "ssh_key": str(folder / "key"),
        "ssh_known_hosts_file": str(folder / "known hosts"),
        **more,
    }


def inventory(sshd: Sshd, **nodes: Data) -> str:
    """Write an inventory; _ in a name stands for -."""
    hosts = [(name.replace("_", "-"), each) for name, each in nodes.items()]
    file = sshd.home.parent / "nodes.py"
    file.write_text(f"hosts = {hosts!r}\n")
    return str(file)


def asked(*questions: Question, last: float = 180) -> dict[str, Answer]:
    return clustershell.gather(questions, last)


def question(name: str, given: Data) -> Question:
    return Question(name, given, "0123456789abcdef")


def test_the_errors_of_a_login(sshd: Sshd) -> None:
    """In the words of a session, and with what its next step is made of."""
    folder = sshd.home.parent
    nodes = {
        "unknown": data(sshd, ssh_known_hosts_file=str(folder / "empty")),
        "changed": data(sshd, ssh_known_hosts_file=str(folder / "changed")),
        "denied": data(sshd, ssh_key=str(folder / "other")),
        "refused": data(sshd, ssh_port=1),
        "nameless": data(sshd, ssh_hostname="no-such-name.invalid"),
        "alive": data(sshd),
    }
    file = inventory(sshd, **nodes)
    sshd.answer = lambda channel, _: reply(channel, b"Welcome\n")
    by_ssh = gather(file)
    found = engines.gather_via("clustershell", file, ())
    assert [each.reached for each in found.values()] == [each.reached for each in by_ssh.values()]
    for name in ("nameless", "alive"):
        assert found[name].error == by_ssh[name].error
    # A session's own error has the next step.
    for name, step in (("refused", "; next: "), ("unknown", ": its "), ("denied", ": its ")):
        assert (by_ssh[name].error or "").startswith(f"{found[name].error}{step}")
    context = {name: each.cause and each.cause.__context__ for name, each in found.items()}
    assert isinstance(context["unknown"], SSHException)
    assert isinstance(context["denied"], AuthenticationException)
    changed = refusal(found["changed"].cause)
    assert changed is not None
    fingerprint = sshd.keys[0].fingerprint
    assert explained(found["changed"].error or "", changed, "site.yml", "a") == (
        f"its host key has changed: offered {fingerprint}; if it was reinstalled, compare with "
        "what the node shows on its console: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub; "
        f"then: gpu-node host-key site.yml a --accept {fingerprint}"
    )
    assert "empty" in {each.name for each in folder.iterdir()}
    assert not (folder / "empty").read_text()  # no key was pinned


def test_a_refused_key_is_in_the_report_alone(sshd: Sshd) -> None:
    """What pyinfra logs of it is not on stderr."""
    empty = sshd.home.parent / "empty"
    done = run("gpu-node", "drift", inventory(sshd, a=data(sshd, ssh_known_hosts_file=str(empty))))
    out = " ".join(done.out.split())
    assert sshd.keys[0].fingerprint in out and "is not pinned" in out
    assert done.err == ""


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        (
            ["ssh: connect to host 192.0.2.1 port 22: Connection timed out"],
            "Could not connect (timed out)",
        ),
        (
            ["ssh: Could not resolve hostname a: Name or service not known"],
            "Could not resolve hostname 'a' (Name or service not known); next: correct the node's "
            "address in the inventory, or the name in this machine's DNS or /etc/hosts",
        ),
        (
            ["kex_exchange_identification: read: Connection reset", "Connection closed by x"],
            "SSH error (kex_exchange_identification: read: Connection reset)",
        ),
        ([], "SSH error (ssh ended without a reason)"),
    ],
)
def test_other_errors_of_ssh(lines: list[str], error: str) -> None:
    assert str(failure(lines, {})) == error


def test_the_command_line_of_ssh() -> None:
    """The inventory's values and strict options; a name cannot be an option."""
    made = words("n", {"ssh_hostname": "-oProxyCommand=x", "ssh_known_hosts_file": "/a b/100%"})
    assert made[: len(STRICT) + 1] == ["ssh", *STRICT]
    assert made[-2:] == ["--", "-oProxyCommand=x"]
    assert 'UserKnownHostsFile="/a b/100%%"' in made


def test_a_jump_host_that_is_none(sshd: Sshd, tmp_path: Path) -> None:
    """The node has the reason, and the others are asked."""
    config = tmp_path / "config"
    config.write_text("Host far\n ProxyJump a$b\nHost *\n CheckHostIP no\n")
    answers: dict[str, Callable[[Channel, bytes], None]] = {"near": Answers()}
    sshd.answer = lambda channel, command: _by_script(channel, command, answers)
    given = data(sshd, ssh_config_file=str(config))
    found = asked(question("far", {**given, "ssh_hostname": "far"}), question("near", given))
    assert found["near"].error is None
    assert (found["far"].reached, found["far"].state) == (False, None)
    assert "the jump host 'a$b' is not [user@]host[:port]" in (found["far"].error or "")


class Answers:
    """Answers as this machine, with words changed."""

    def __call__(
        self, channel: Channel, command: bytes, old: bytes = b"", new: bytes = b""
    ) -> None:
        script: bytes = channel.given  # type: ignore[attr-defined]
        done = subprocess.run(["sh", "-c", command], input=script, capture_output=True)
        reply(channel, done.stdout.replace(old, new) if old else done.stdout, done.returncode)


def _by_script(
    channel: Channel, command: bytes, nodes: dict[str, Callable[[Channel, bytes], None]]
) -> None:
    """Answer as the node that a script names."""
    script = b"".join(iter(lambda: channel.recv(32768), b""))
    channel.given = script  # type: ignore[attr-defined]
    (name,) = [name for name in nodes if b"node=${1:-%b}" % name.encode() in script]
    nodes[name](channel, command)


def test_a_slow_node_is_given_up(sshd: Sshd) -> None:
    """Once the others have answered; its ssh ends."""
    honest = Answers()
    nodes: dict[str, Callable[[Channel, bytes], None]] = {
        **{"a": honest, "b": honest},
        "silent": lambda *_: time.sleep(60),
    }
    sshd.answer = lambda channel, command: _by_script(channel, command, nodes)
    begun = time.monotonic()
    found = asked(*(question(name, data(sshd)) for name in nodes), last=2)
    assert "it has not answered 2 s after half of the others" in (found["silent"].error or "")
    assert not found["silent"].reached
    assert found["a"].error is None and found["b"].error is None
    assert time.monotonic() - begun < 50


TREE = """[routes]
{here}: gw
gw: a100-[01-02]
"""


class Planted:
    """What its unpickler runs: a gateway sends pickles, and ClusterShell loads them."""

    def __init__(self, file: Path) -> None:
        self.file = file

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.file,)


@pytest.fixture
def hostile(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A topology with a gateway whose root wants a file made here; the path of that file."""
    folder = sshd.home.parent
    (folder / "clustershell").mkdir()
    here = socket.gethostname().split(".")[0]
    (folder / "clustershell" / "topology.conf").write_text(TREE.format(here=here))
    planted = folder / "planted"
    sent = StdErrMessage("gw", Planted(planted)).xml()
    honest = Answers()

    def answer(channel: Channel, command: bytes) -> None:
        if b"ClusterShell.Gateway" in command:
            start = b"<?xml version='1.0' encoding='utf-8'?>\n<channel version='1.10'>\n"
            reply(channel, start + sent + b"\n")
        else:
            _by_script(channel, command, {"gw": honest, "a100-01": honest})

    sshd.answer = answer
    return planted


def at_its_name(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ssh find the gateway by its name, as ssh_config does."""
    folder = sshd.home.parent
    (folder / "bin").mkdir()
    real = shutil.which("ssh")
    (folder / "bin" / "ssh").write_text(
        f"""#!/bin/sh
case $* in *ClusterShell.Gateway*)
  for last; do :; done
  set -- -o StrictHostKeyChecking=yes -o UserKnownHostsFile='"{folder}/known hosts"' \\
    -i {folder}/key -p {sshd.port} -l root 127.0.0.1 "$last" ;;
esac
exec {real} "$@"
"""
    )
    (folder / "bin" / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")


def test_no_gateway_is_asked(sshd: Sshd, hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its root would run code here; the nodes behind it have the reason, others an answer."""
    at_its_name(sshd, monkeypatch)
    found = asked(*(question(name, data(sshd)) for name in ("a100-01", "gw")))
    assert not hostile.exists()
    assert (found["gw"].error, found["gw"].reached) == (None, True)
    assert (found["a100-01"].error, found["a100-01"].reached) == (on_clustershell.BEHIND, False)


def test_a_topology_that_the_site_turns_off(sshd: Sshd, hostile: Path) -> None:
    """As the error suggests: ssh asks each node."""
    own = sshd.home.parent / "clustershell" / "defaults.conf"
    own.write_text("[task.default]\nauto_tree: no\n")
    assert asked(question("a100-01", data(sshd)))["a100-01"].error is None


def test_without_the_library(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clustershell, "LIBRARY", "no_such_library")
    with pytest.raises(clustershell.NoClusterShell, match="no Python library no_such_library"):
        asked(question("a", data(sshd)))


def test_what_is_no_node(sshd: Sshd) -> None:
    """@local has no sshd; a name that ClusterShell would read as several is not asked."""
    with pytest.raises(engines.NotANode, match="@local"):
        engines.gather_via("clustershell", inventory(sshd, **{"@local": {}}), ())
    for name in ("a[1-3]", "-oProxyCommand=x", "a b"):
        error = asked(question(name, data(sshd)))[name].error
        assert error == "ClusterShell takes names of letters, digits, `.`, `_` and `-` alone"


def test_all_ends_with_this_process(sshd: Sshd) -> None:
    """Also where it is killed: ClusterShell, and each ssh of it."""
    file = inventory(sshd, a=data(sshd))
    reached = threading.Event()

    def hang(channel: Channel, _: bytes) -> None:
        reached.set()
        time.sleep(60)

    sshd.answer = hang
    code = (
        "from gevent import monkey; monkey.patch_all()\n"
        "from gpu_node.facts.ask.via import engines\n"
        f"engines.gather_via('clustershell', {file!r}, ())"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=sshd.home)
    assert reached.wait(60)
    mine = str(sshd.home.parent / "key")
    assert _with(mine)
    process.send_signal(signal.SIGKILL)
    process.wait()
    for _ in range(100):
        if not _with(mine):
            break
        time.sleep(0.05)
    assert not _with(mine)


def _with(word: str) -> list[bytes]:
    """Return the command lines of processes that have a word."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(file.read_bytes())
    return [each for each in found if word.encode() in each]


def test_a_changed_key_without_its_fingerprint() -> None:
    error = failure(["@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @"], {})
    refused = refusal(error)
    assert refused is not None
    step = explained(str(error), refused, "site.yml", "a")
    assert step.startswith("its host key has changed: if it was reinstalled, ")
    assert step.endswith("then: gpu-node host-key site.yml a")


KINDS = {
    "one line": b"x" * 15_000_000,
    "empty lines": b"\n" * 490_000,
    "carriage returns": b"\r" * 15_000_000,
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_shape_of_an_answer_costs_nothing(kind: str, tmp_path: Path) -> None:
    """Its processor time is that of its bytes: one node keeps no other one waiting."""
    plain, _ = carried(tmp_path, b"x" * 999 + b"\n", 15_000)
    seconds, answer = carried(tmp_path, KINDS[kind], 1)
    assert seconds < 2 * plain
    assert base64.b64decode(answer["out"]) == KINDS[kind]


def carried(folder: Path, part: bytes, count: int) -> tuple[float, Data]:
    """Return what it costs to carry an answer of so many parts, and the answer; ssh is cat."""
    (folder / "answer").write_bytes(part * count)
    shared = {"command": "", "connect": 5, "most": 1 << 24, "most_lines": 500_000}
    words = ["sh", "-c", f"exec cat {shlex.quote(str(folder / 'answer'))}", "sh"]
    node = {"name": "a", "ssh": words, "seconds": 60, "script": ""}
    orders = [{**shared, "too_much": "too much", "last": 60}, node]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", on_clustershell.__name__],
        input="".join(f"{json.dumps(each)}\n" for each in orders),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return used, json.loads(done.stdout)

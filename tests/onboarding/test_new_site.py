"""A new inventory: keys are confirmed once, the file is valid, and what was found is a comment."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from paramiko import ECDSAKey
from typing_extensions import override

from gpu_node.deploy.console import UserConsole
from gpu_node.inventories.schema import load
from gpu_node.onboarding.errors import ContactError, Stopped
from gpu_node.onboarding.new_site import Access, NewNode, NewSite, advised, nodes_of
from tests.drift import states
from tests.onboarding.serving import Sshd, serving

HERE = "127.0.0.1"
NODE = NewNode("n1", HERE)


class Answering(UserConsole):
    """A user who answers each question alike, or is not there (None)."""

    def __init__(self, answer: bool | None) -> None:
        super().__init__()
        self.answer = answer
        self.lines: list[str] = []
        self.asked: list[str] = []

    @property
    @override
    def asks(self) -> Callable[[str], bool] | None:
        return None if self.answer is None else self._answered

    def _answered(self, question: str) -> bool:
        self.asked.append(question)
        return bool(self.answer)

    @override
    def say(self, line: str) -> None:
        self.lines.append(line)


def site(sshd: Sshd, tmp_path: Path, answer: bool | None, **access: Any) -> NewSite:
    """The new site of one server."""
    given = {"port": sshd.port, "known": tmp_path / "own", **access}
    return NewSite(tmp_path / "site", Access(**given), Answering(answer))


def digest(sshd: Sshd) -> str:
    return sshd.keys[0].fingerprint


def test_one_question_for_all_keys(sshd: Sshd, tmp_path: Path) -> None:
    """Each is shown with name and address; then the files are there, and the key is pinned."""
    made = site(sshd, tmp_path, True)
    made.create([NODE, NewNode("n2", "localhost")])
    console = made.console
    assert isinstance(console, Answering)
    assert console.asked == ["Trust these 2 new keys?"]
    assert [line.split()[0] for line in console.lines[:2]] == ["n1", "n2"]
    assert all(digest(sshd) in line and line.endswith("new") for line in console.lines[:2])
    assert console.lines[2] == "n[1-2] have one host key: one machine, or a cloned image"
    cluster = load(tmp_path / "site" / "site.yml")
    assert [each["address"] for each in cluster.nodes()] == [HERE, "localhost"]
    assert {each["port"] for each in cluster.nodes()} == {sshd.port}
    known = (tmp_path / "site" / "known_hosts").read_text()
    assert known.count(sshd.host_key) == 2
    assert "groups_of(__file__)" in (tmp_path / "site" / "site.py").read_text()


def test_two_nodes_with_two_ports(sshd: Sshd, tmp_path: Path) -> None:
    """Each node's word has its port; that of the command is for the others."""
    home = tmp_path / "other"
    home.mkdir()
    with serving(home) as other:
        nodes = nodes_of([f"n1={HERE}:{sshd.port}", f"n2=localhost:{other.port}"])
        site(sshd, tmp_path, True, port=None).create(nodes)
    found = load(tmp_path / "site" / "site.yml").nodes()
    assert [each["address"] for each in found] == [HERE, "localhost"]
    assert [each["port"] for each in found] == [sshd.port, other.port]
    known = (tmp_path / "site" / "known_hosts").read_text()
    assert f"[{HERE}]:{sshd.port} {sshd.host_key}" in known
    assert f"[localhost]:{other.port} {other.host_key}" in known


def test_the_port_of_a_word(sshd: Sshd, tmp_path: Path) -> None:
    """An IPv6 address has it behind brackets; a word's port comes before --port."""
    words = ["a=10.0.0.4", "b=[fd00::5]:2312", "c=fd00::6", "d=[fd00::7]", "e=10.0.0.8:22"]
    nodes = nodes_of(words)
    assert [each.address for each in nodes] == [
        "10.0.0.4",
        "fd00::5",
        "fd00::6",
        "fd00::7",
        "10.0.0.8",
    ]
    assert [each.port for each in nodes] == [None, 2312, None, None, 22]
    (tmp_path / "known_hosts").touch()
    text = site(sshd, tmp_path, True, port=2222).text(nodes)
    (tmp_path / "site.yml").write_text(text)
    found = load(tmp_path / "site.yml").nodes()
    assert [each["port"] for each in found] == [2222, 2312, 2222, 2222, 22]


@pytest.mark.parametrize("port", ["0", "65536", "ssh", "", "-1", "\u0662"])
def test_a_word_with_a_bad_port(port: str) -> None:
    """The error shows the port."""
    with pytest.raises(
        Stopped, match=r"is not a port.*; allowed: NAME=ADDRESS, or NAME=ADDRESS:PORT"
    ):
        nodes_of([f"a=10.0.0.4:{port}"])


@pytest.mark.parametrize("answer", [False, None])
def test_a_key_that_is_not_confirmed(sshd: Sshd, tmp_path: Path, answer: bool | None) -> None:
    """Nothing is written; without a terminal the error has what to give."""
    with pytest.raises(Stopped, match="found ") as error:
        site(sshd, tmp_path, answer).create([NODE])
    assert not (tmp_path / "site").exists()
    assert (f"--accept-host-key n1={digest(sshd)}" in str(error.value)) == (answer is None)


def test_one_of_several_that_is_down(sshd: Sshd, tmp_path: Path) -> None:
    """Nothing is written, and the error says how to go on without it."""
    with socket.socket() as closed, pytest.raises(Stopped) as error:
        closed.bind((NODE.address, 0))
        down = NewNode("n2", "localhost", closed.getsockname()[1])
        site(sshd, tmp_path, True).create([NODE, down])
    first, last = str(error.value).split("\n")
    assert first.startswith("n2: found connection refused at ")
    assert last.startswith("nothing was written; ") and "gpu-node onboard" in last
    assert not (tmp_path / "site").exists()


def test_a_key_that_is_given(sshd: Sshd, tmp_path: Path) -> None:
    made = site(sshd, tmp_path, None, accept=(digest(sshd),))
    made.create([NODE])
    assert sshd.host_key in (tmp_path / "site" / "known_hosts").read_text()


def test_the_key_of_each_of_several_servers(sshd: Sshd, tmp_path: Path) -> None:
    """One that is given for another server is not taken: that one could stand in for it."""
    nodes = [NODE, NewNode("n2", "localhost")]
    mine, others = digest(sshd), f"SHA256:{'A' * 43}"

    def refused(*words: str) -> str:
        with pytest.raises(Stopped) as error:
            site(sshd, tmp_path, None, accept=words).create(nodes)
        assert not (tmp_path / "site").exists()
        return str(error.value)

    several = "allowed: NAME=SHA256:... for each of several servers"
    for words in ((others, mine), (mine,)):
        assert refused(*words) == (
            f"--accept-host-key: found {words[0]} (no server's name); {several}"
        )
    swapped = refused(f"n1={mine}", f"n2={others}")
    assert swapped.startswith(f"n2: found {others} (not one of the host keys offered at ")
    assert refused(f"n1={mine}", f"n2={mine}", f"n3={mine}", f"n1={others}").splitlines() == [
        "--accept-host-key: found 'n3' (no such server); allowed: n1, n2",
        "--accept-host-key: found n1 twice; allowed: one key a server",
    ]
    lacking = refused(f"n1={mine}")
    assert lacking.endswith(f"then give --accept-host-key n2={mine}")
    site(sshd, tmp_path, None, accept=(f"n1={mine}", f"n2={mine}")).create(nodes)
    assert (tmp_path / "site" / "known_hosts").read_text().count(sshd.host_key) == 2


def test_a_key_that_the_user_knows(sshd: Sshd, tmp_path: Path) -> None:
    """From the user's own known_hosts, which stays as it is."""
    (tmp_path / "own").write_text(f"[{HERE}]:{sshd.port} {sshd.host_key}\n")
    made = site(sshd, tmp_path, None)
    made.create([NODE])
    assert isinstance(made.console, Answering) and made.console.lines[0].endswith("known")
    assert (tmp_path / "own").read_text() == f"[{HERE}]:{sshd.port} {sshd.host_key}\n"


def test_another_key_than_the_user_knows(sshd: Sshd, tmp_path: Path) -> None:
    """It is never asked for: another machine may answer."""
    other = ECDSAKey.generate()
    (tmp_path / "own").write_text(f"[{HERE}]:{sshd.port} {other.get_name()} {other.get_base64()}\n")
    with pytest.raises(ContactError, match=r"^n1: found .* has changed") as error:
        site(sshd, tmp_path, True).create([NODE])
    assert not (tmp_path / "site").exists()
    assert f"--accept-host-key n1={digest(sshd)}" in str(error.value)
    assert "INVENTORY" not in str(error.value)  # there is none yet
    site(sshd, tmp_path, None, accept=(digest(sshd),)).create([NODE])
    assert sshd.host_key in (tmp_path / "site" / "known_hosts").read_text()


@pytest.mark.parametrize("is_pinned", [False, True])
def test_a_key_that_was_given_and_is_not_offered(
    is_pinned: bool, sshd: Sshd, tmp_path: Path
) -> None:
    """There is no question: the user has given the key that the server must have."""
    if is_pinned:
        (tmp_path / "own").write_text(f"[{HERE}]:{sshd.port} {sshd.host_key}\n")
    given = f"SHA256:{'A' * 43}"
    with pytest.raises(ContactError, match=rf"^n1: found {given} \(not one of the host keys"):
        site(sshd, tmp_path, True, accept=(given,)).create([NODE])
    assert not (tmp_path / "site").exists()


def test_a_node_that_does_not_answer(sshd: Sshd, tmp_path: Path) -> None:
    """All that do not are named, and nothing is written."""
    with pytest.raises(Stopped) as error:
        site(sshd, tmp_path, True, port=1).create([NODE, NewNode("n2", "localhost")])
    lines = str(error.value).splitlines()
    assert [line.split(":")[0] for line in lines] == ["n1", "n2"]
    assert not (tmp_path / "site").exists()


@pytest.mark.parametrize("name", ["site.yml", "site.py"])
def test_what_is_there_stays(sshd: Sshd, tmp_path: Path, name: str) -> None:
    """A folder with other files may be used, one with an inventory not; a link is there, too."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "notes").write_text("mine")
    site(sshd, tmp_path, True)
    (tmp_path / "site" / name).symlink_to("nowhere")
    with pytest.raises(Stopped, match=f"{name}: found a file that exists"):
        site(sshd, tmp_path, True)


def test_an_interrupted_run_is_repeated(sshd: Sshd, tmp_path: Path) -> None:
    """What it wrote before it asked the nodes is written again; what a user changed stays."""
    nodes = [NODE, NewNode("n2", "localhost")]
    site(sshd, tmp_path, True).create(nodes)
    file = tmp_path / "site" / "site.yml"
    text = file.read_text()
    site(sshd, tmp_path, True).create(nodes)
    assert file.read_text() == text
    file.unlink()
    site(sshd, tmp_path, True).create(nodes)
    assert file.read_text() == text
    with pytest.raises(Stopped, match=r"site\.yml: found a file that exists"):
        site(sshd, tmp_path, True).create([NODE])
    for changed in (text.replace("localhost", HERE), text + "# mine\n"):
        file.write_text(changed)
        with pytest.raises(Stopped, match=r"site\.yml: found a file that exists"):
            site(sshd, tmp_path, True).create(nodes)
        assert file.read_text() == changed


def test_a_file_in_the_folders_place(sshd: Sshd, tmp_path: Path) -> None:
    (tmp_path / "site").write_text("mine")
    with pytest.raises(Stopped, match="found a file; allowed: a folder"):
        site(sshd, tmp_path, True)


def test_a_name_that_no_file_may_have(sshd: Sshd, tmp_path: Path) -> None:
    """The schema decides; no half-made folder stays."""
    made = site(sshd, tmp_path, True)
    with pytest.raises(Stopped, match=r"^hosts\.site: found 'site' "):
        made.create([NewNode("site", HERE)])
    assert isinstance(made.console, Answering) and made.console.asked == []
    assert not (tmp_path / "site").exists()


def test_names_that_yaml_takes_for_something_else(sshd: Sshd, tmp_path: Path) -> None:
    nodes = [NewNode("null", "10.0.0.1"), NewNode("1", "10.0.0.2"), NewNode("on", "10.0.0.3")]
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "known_hosts").touch()
    cluster = load(tmp_path / "site" / "site.yml", site(sshd, tmp_path, True).text(nodes))
    assert list(cluster.hosts) == ["null", "1", "on"]


def test_what_a_training_needs_more_of_is_an_example(sshd: Sshd, tmp_path: Path) -> None:
    """A value that no finding names is named here, with what was found, also where it is enough."""
    small: dict[str, Any] = {
        "shm": {"usage": {"size": 67108864}},
        "limits": {
            "session": {
                "nofile": {"soft": 1024, "hard": 524288},
                "memlock": {"soft": 65536, "hard": 65536},
            }
        },
    }
    unread: dict[str, Any] = {"shm": {"usage": None, "mount": None}, "limits": {"session": None}}
    made = site(sshd, tmp_path, True)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "known_hosts").touch()
    found = {"a": states.state(small), "b": states.state(), "c": states.state(unread)}
    text = advised(made.text(NODES), NODES, found, {})
    assert "  # shm: {size: 8G}  # a minimum; found: 64M on a; 8G on b\n" in text
    assert (
        "  # limits: {nofile: 131072, memlock: unlimited}  "
        "# minimums; found: nofile 1024/524288, memlock 64K/64K on a; "
        "nofile 131072/131072, memlock unlimited/unlimited on b\n"
    ) in text
    uncommented = re.sub(r"^  # (?=(shm|limits):)", "  ", text, flags=re.MULTILINE)
    wanted = load(tmp_path / "site" / "site.yml", uncommented).hosts["a"].wanted
    assert wanted.shm is not None and wanted.shm.size == 8 << 30
    assert wanted.limits is not None and wanted.limits.nofile == 131072
    assert "shm:" not in advised(made.text(NODES), NODES, {"c": found["c"]}, {})


def test_what_a_proposed_size_fits(sshd: Sshd, tmp_path: Path) -> None:
    """The smallest that is found, at least 8G, and at most half of the memory of a node."""
    made = site(sshd, tmp_path, True)
    little = {"host": {"memory": {"total": 8 << 30}}, "shm": {"usage": {"size": 67108864}}}
    large = {"shm": {"usage": {"size": 64 << 30}}}
    odd = {"shm": {"usage": {"size": (47 << 30) // 2}}}
    all_of_it = {"host": {"memory": {"total": 47 << 30}}, "shm": {"usage": {"size": 47 << 30}}}
    without_a_limit = {"shm": {"usage": {"size": 0}}}
    on_disk = {"shm": {"mount": {"fstype": "xfs"}, "usage": {"size": 4 << 40}}}
    unknown = {"host": {"memory": None}, "shm": {"usage": {"size": 64 << 30}}}
    cases: list[tuple[str, list[dict[str, Any]]]] = [
        ("4G", [little, large]),
        ("8G", [{"shm": {"usage": {"size": 67108864}}}, large]),
        ("64G", [large]),
        ("23G", [odd, large]),
        ("23G", [all_of_it]),
        ("126G", [without_a_limit]),
        ("8G", [on_disk]),
        ("8G", [unknown]),
    ]
    for size, found in cases:
        states_found = dict(zip("abc", map(states.state, found), strict=False))
        text = advised(made.text(NODES), NODES, states_found, {})
        assert f"# shm: {{size: {size}}}  # a minimum; found: " in text


EDITED = """\
# ours
cluster: lab

defaults:
  workspace:
    path: /srv
  shm: {size: 16G}
  # Found, or advised. Remove the # before what all should have, one line a key:
  # network: auto  # eth0 on a
  # from the first day

groups:
  a100: {}

hosts:
  a:
    address: 10.0.0.1
    # gpu: {model: V100, count: 1}
    port: 2222
  "b":
    address: node-b.lab
    # gpu: {model: V100, count: 4}
"""


def test_what_is_found_later_is_added_to_a_file_of_the_user() -> None:
    """In place of an earlier suggestion; a node without an answer keeps its own."""
    text = advised(EDITED, NODES, {"a": states.state({})}, {})
    assert text.startswith("# ours\ncluster: lab\n\ndefaults:\n  # Found, or advised. Remove")
    assert '\n  # driver: {version: "535.154.05"}  # a\n' in text
    assert "  # limits: " in text and "# shm: " not in text and "eth0" not in text
    assert "\n  # from the first day\n\ngroups:" in text
    hosts = text[text.index("hosts:") :]
    assert hosts == EDITED[EDITED.index("hosts:") :].replace("V100, count: 1", "A100, count: 2")
    assert advised(text, NODES, {"a": states.state({})}, {}) == text


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["n1"], "found 'n1' (no address); allowed: NAME=ADDRESS"),
        (["n1="], "found 'n1=' (no address)"),
        (["N 1=10.0.0.4"], "name: found 'N 1'"),
        (["n1=10.0.0.4", "n1=10.0.0.5"], "found 'n1' twice; allowed: one name a node"),
        (["n1=10.0.0.999"], "address: found '10.0.0.999'"),
        (["root@10.0.0.4:2222"], "next: write a100-01=10.0.0.4:2222 --user root"),
        (["n1=root@h1:2222"], "next: write n1=h1:2222 --user root, each a word"),
        (["n1=ssh://u@[fd00::1]:22"], "next: write n1=[fd00::1]:22 --user u, each a word"),
        (
            ["n1=fd00::1", "n2=FD00:0::1"],
            "found 'FD00:0::1' (for n1 and n2); allowed: one a node",
        ),
    ],
)
def test_words_that_name_no_node(words: list[str], problem: str) -> None:
    with pytest.raises(Stopped) as error:
        nodes_of(words)
    assert problem in str(error.value)


def test_a_name_with_a_newline() -> None:
    """It is escaped wherever it stands: a line is one problem."""
    with pytest.raises(Stopped) as error:
        nodes_of(["d1", f"n3={HERE}", f"n5\nevil={HERE}"])
    lines = str(error.value).split("\n")
    assert len(lines) == 3 and all("found " in line for line in lines)
    assert "(for n3 and 'n5\\nevil')" in lines[2]


@pytest.mark.parametrize("name", ["", "site.py"])
def test_a_folder_with_a_newline(tmp_path: Path, name: str) -> None:
    """Whether it is a file, or holds one."""
    folder = tmp_path / "d\nx"
    if name:
        folder.mkdir()
    (folder / name if name else folder).touch()
    with pytest.raises(Stopped) as error:
        NewSite(folder, Access(), Answering(True))
    assert "d\\nx" in str(error.value) and "\n" not in str(error.value)


NODES = [NewNode("a", "10.0.0.1"), NewNode("b", "node-b.lab"), NewNode("c", "fd00::3")]


def test_what_was_found_is_suggested(sshd: Sshd, tmp_path: Path) -> None:
    """As comments that make a valid file without their #."""
    made = site(sshd, tmp_path, True, user="alice", sudo=True, key=tmp_path / "my key")
    (tmp_path / "my key").touch()
    address = {"interface": "bond0", "address": "10.0.0.1/24", "scope": "global"}
    found = {
        "a": states.state({"network": {"addresses": [address]}}),
        "b": states.state({}),
        "c": states.state({"driver": {"smi": None, "loaded": {"nvidia": "$(reboot)"}}}),
    }
    places = {"a": "/opt/envs/dis\n/opt/a: [b\n", "b": "/opt/envs/dis\n", "c": "x\x1b\n"}
    text = advised(made.text(NODES), NODES, found, places)
    assert '# driver: {version: "535.154.05"}  # a, b' in text
    assert "# shm: {size: 8G}  # a minimum; found: 8G on all" in text
    assert "# network: auto  # bond0 on a" in text
    assert "# nccl: {environments: [/opt/envs/dis]}  # a, b" in text
    assert text.count("# gpu: {model: A100, count: 2}") == 2
    assert "reboot" not in text and "\x1b" not in text and "[b" not in text
    chosen = text.replace("  # network: auto  # bond0 on a", "  network: auto")
    again = advised(chosen, NODES, found, places).splitlines()
    assert sorted(again) == sorted(chosen.splitlines())
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "known_hosts").touch()
    before = load(tmp_path / "site" / "site.yml", text)
    assert before.hosts["a"].wanted.gpu is None
    assert before.defaults["ssh_key"] == str(tmp_path / "my key")
    after = load(tmp_path / "site" / "site.yml", re.sub(r"(?m)^( +)# (?=\w+: [{a])", r"\1", text))
    wanted = after.hosts["a"].wanted
    assert wanted.driver is not None and wanted.driver.version == "535.154.05"
    assert wanted.gpu is not None and (wanted.gpu.model, wanted.gpu.count) == ("A100", 2)
    assert wanted.nccl is not None and list(wanted.nccl.environments or ()) == ["/opt/envs/dis"]


def test_a_machine_without_gpus_is_suggested_as_one_that_launches(
    sshd: Sshd, tmp_path: Path
) -> None:
    """As a comment alone; not where a container may hide the GPUs."""
    bare = {"smi": {"code": None, "gpus": [], "output": ""}, "devices": []}
    inside = {"host": {"memory": {"is_machine": False}}}
    found = {"a": states.state({"driver": bare}), "b": states.state({"driver": bare, **inside})}
    text = advised(site(sshd, tmp_path, True).text(NODES), NODES, found, {})
    assert text.count("    # gpu: none  # for a node that only launches jobs\n") == 1


def ssh_config(controller: Path, text: str | bytes) -> Path:
    """The user's ssh_config."""
    (controller / ".ssh").mkdir(exist_ok=True)
    file = controller / ".ssh" / "config"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Host bad\n  Port nope\n", "Port: found 'nope' (for bad); allowed: a number of at most"),
        ("Host bad\n  Port 99999\n", "Port: found '99999' (for bad); allowed: a number of at most"),
        (f"Host bad\n  Port {'9' * 5000}\n", "Port: found '9999"),
        ("Host bad\n  ConnectTimeout soon\n", "ConnectTimeout: found 'soon' (for bad)"),
        ("Host bad\n  ProxyJump a@gw:b\n", "ProxyJump: found 'b' (for bad)"),
        (b"Host b\xe4d\n", "found bytes that are not UTF-8 text; allowed: text"),
        ("Include more\n", "Include: found '{home}/.ssh/more' (included twice, or by itself)"),
        ('Host "bad\n', "found "),
    ],
)
def test_a_bad_ssh_config(
    sshd: Sshd, tmp_path: Path, controller: Path, text: str | bytes, problem: str
) -> None:
    """One line with the file, before any node is contacted."""
    ssh_config(controller, text)
    (controller / ".ssh" / "more").write_text("Include more\n")
    connected: list[object] = []
    sshd.instead = connected.append
    nodes = [NODE, NewNode("n2", "bad")]
    with pytest.raises(Stopped) as error:
        site(sshd, tmp_path, True).create(nodes)
    line = str(error.value)
    assert line.startswith(f"~/.ssh/config: {problem.format(home=controller)}"), line
    assert "\n" not in line and not connected
    assert not (tmp_path / "site").exists()


def test_an_alias_of_ssh_config(sshd: Sshd, tmp_path: Path, controller: Path) -> None:
    """Its port and its user are in the entry of the node, and the first report logs in."""
    may_log_in(sshd, tmp_path)
    ssh_config(controller, f"Host al\n  HostName {HERE}\n  Port {sshd.port}\n  User alice\n")
    run = command(sshd, "n1=al")
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert "wrote site/site.yml" in done.stderr, done.stderr
    cluster = load(tmp_path / "site" / "site.yml")
    data = cluster.data_of("n1")
    assert (data["ssh_user"], data["ssh_port"]) == ("alice", sshd.port)
    assert cluster.defaults.get("ssh_user") is None and "ssh_port" not in cluster.defaults
    assert f"[{HERE}]:{sshd.port} " in (tmp_path / "site" / "known_hosts").read_text()
    assert "\n1 node, 1 " in done.stdout, done.stdout
    assert "unreachable" not in done.stdout, done.stdout


@pytest.mark.parametrize(
    ("access", "logins"),
    [
        ({}, {"n1": ("root", None), "n2": ("alice", 2200)}),
        ({"user": "bob"}, {"n1": ("bob", None), "n2": ("bob", 2200)}),
        ({"port": 22}, {"n1": ("root", 22), "n2": ("alice", 22)}),
        ({"user": "bob", "port": 2300}, {"n1": ("bob", 2300), "n2": ("bob", 2300)}),
    ],
)
def test_an_option_is_above_ssh_config(
    tmp_path: Path, controller: Path, access: dict[str, Any], logins: dict[str, Any]
) -> None:
    """It is for all nodes; without one each node has what ssh_config has for it alone."""
    ssh_config(controller, "Host al\n  Port 2200\n  User alice\n")
    folder = tmp_path / "site"
    made = NewSite(folder, Access(**access), Answering(True))
    text = made.text([NODE, NewNode("n2", "al")])
    folder.mkdir()
    (folder / "known_hosts").touch()
    cluster = load(folder / "site.yml", text)
    found = {name: cluster.data_of(name) for name in ("n1", "n2")}
    assert logins == {
        name: (data["ssh_user"], data.get("ssh_port")) for name, data in found.items()
    }


@pytest.mark.parametrize("kind", ["fifo", "folder"])
def test_an_ssh_config_that_is_no_file(
    sshd: Sshd, tmp_path: Path, controller: Path, kind: str
) -> None:
    """It is not waited for."""
    file = ssh_config(controller, "")
    file.unlink()
    os.mkfifo(file) if kind == "fifo" else file.mkdir()
    with pytest.raises(Stopped, match=r"^~/\.ssh/config: found a .*\(cannot be read\)$"):
        site(sshd, tmp_path, True).create([NODE, NewNode("n2", "localhost")])


def may_log_in(sshd: Sshd, tmp_path: Path) -> None:
    """The server knows the key `id`."""
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "id"], check=True
    )
    (sshd.home / ".ssh").mkdir()
    sshd.authorized_keys.write_text((tmp_path / "id.pub").read_text())


def command(sshd: Sshd, node: str, *options: str) -> list[str]:
    """The whole command for one server, without a question."""
    run = [sys.executable, "-m", "gpu_node.cli.main", "init", "site", node]
    return [*run, "--key", "id", "--accept-host-key", digest(sshd), *options]


def test_one_machine_under_two_names(sshd: Sshd, tmp_path: Path) -> None:
    """The report says so, and does not advise to remove the host key that both names have."""
    may_log_in(sshd, tmp_path)
    keys = [f"--accept-host-key={name}={digest(sshd)}" for name in ("n1", "n2")]
    words = [f"n1={HERE}", "n2=localhost", "--key", "id", "--port", str(sshd.port), *keys]
    run = [sys.executable, "-m", "gpu_node.cli.main", "init", "site", *words]
    wide = {**os.environ, "COLUMNS": "200"}
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=120, env=wide)
    assert "host.one-machine" in done.stdout, done.stdout + done.stderr
    assert "n[1-2] are one machine" in done.stdout
    assert "ssh.host-key-shared" not in done.stdout
    drift = [sys.executable, "-m", "gpu_node.cli.main", "drift", "site/site.py"]
    words = [*drift, "--format", "json"]
    whole = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    hosts = json.loads(whole.stdout)["hosts"]
    assert {each["facts"]["ssh"]["reached"] for each in hosts.values()} == {sshd.host_key}
    found = [each for host in hosts.values() for each in host["findings"]]
    assert [each["rule"] for each in found].count("host.one-machine") == 2
    assert not [each for each in found if "ssh_host_" in each["fix"]]


def test_an_interrupt_during_the_first_report(sshd: Sshd, tmp_path: Path) -> None:
    """The files are there: the line names the command that reports."""
    may_log_in(sshd, tmp_path)
    asked = Event()
    sshd.answer = lambda channel, command: asked.set()
    run = subprocess.Popen(
        command(sshd, f"n1={HERE}", "--port", str(sshd.port)),
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert asked.wait(60)
    run.send_signal(signal.SIGINT)
    _, error = run.communicate(timeout=60)
    last = error.splitlines()[-1]
    assert last == "gpu-node: interrupted; next: gpu-node drift site/site.yml"
    assert run.returncode == 1 and (tmp_path / "site" / "site.yml").is_file()


def test_from_nothing_to_the_first_report(sshd: Sshd, tmp_path: Path) -> None:
    """One command, without a terminal: the files, what was found, and the report."""
    may_log_in(sshd, tmp_path)
    done = subprocess.run(
        command(sshd, f"n1={HERE}", "--port", str(sshd.port)),
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode in (0, 1, 2) and "Traceback" not in done.stderr, done.stderr
    assert "wrote site/site.yml and site.py" in done.stderr
    assert done.stderr.splitlines()[-1].endswith("then: gpu-node drift site/site.yml")
    assert "\n1 node, 1 " in done.stdout and "unreachable" not in done.stdout
    assert done.stdout.startswith("n1: "), done.stdout
    load(tmp_path / "site" / "site.yml")

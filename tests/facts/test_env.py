"""The environment's sections in each shell: the answers about a home with files of every kind."""

from __future__ import annotations

import os
import pwd
import shutil
from pathlib import Path

import pytest

from gpu_node.facts.env import state as env
from gpu_node.facts.env.state import EnvState
from gpu_node.facts.network import state as network
from gpu_node.facts.network.state import NetworkState
from gpu_node.facts.probe.base import taken
from gpu_node.facts.probe.peers import Peer
from gpu_node.facts.probe.protocol import Reading
from gpu_node.facts.probe.request import ProbeRequest
from tests.shells import ask

UNASKED = Reading(0, "", "not asked")
BASHRC = (
    b"# >>> gpu-node\nexport OMP_NUM_THREADS='4'\n# <<< gpu-node\n"
    b"# \xd6\xd0 NCCL_DEBUG=INFO\ncase $- in\n  *i*) ;;\n  *) return;;\nesac\n"
    b"export NCCL_DEBUG=INFO # \xd6\xd0\r\nexport HF_HOME=/data\nexport SECRET=NCCL"
)


def state_of(home: Path, shell: str, *names: str) -> EnvState:
    """The state that some sections tell of that user."""
    sections = env.sections(ProbeRequest(user="train", variables=("OMP_NUM_THREADS",)))
    path = f"{home.parent / 'bin'}:{os.environ['PATH']}"
    readings = ask(shell, [each for each in sections if each.name in names], {"PATH": path})
    for section in sections:
        readings.sections.setdefault(section.name, UNASKED)
    state = env.parse(readings)
    unread = {each.section for each in readings.unread}
    assert not unread & set(names)
    return state


def test_a_home_with_files(home: Path, shell: str) -> None:
    """Our block, the early return, the lines that set something, and no other line at all."""
    (home / ".bashrc").write_bytes(BASHRC)
    (home / ".nccl.conf").write_bytes(b"NCCL_IB_TC=1\r\n")
    (home / ".deepspeed_env").write_bytes(b"\n#A=1")
    state = state_of(home, shell, "env.user", "env.bashrc", "env.settings", "env.conf")
    assert state.user is not None and state.user.home == str(home)
    assert state.bashrc is not None
    assert (state.bashrc.lines, state.bashrc.returns) == (11, 7)
    assert [(each.first, each.last) for each in state.bashrc.blocks] == [(1, 3)]
    mine = [each for each in state.settings or () if each.path == "~/.bashrc"]
    assert [(each.line, each.name, each.value, each.ours) for each in mine] == [
        (2, "OMP_NUM_THREADS", "4", True),
        (9, "NCCL_DEBUG", "INFO", False),
    ]
    own = [(each.path, each.text) for each in state.conf or () if each.path.startswith("~")]
    assert own == [
        ("~/.nccl.conf", "NCCL_IB_TC=1\r"),
        ("~/.deepspeed_env", ""),
        ("~/.deepspeed_env", "#A=..."),
    ]


def test_a_home_without_files(home: Path, shell: str) -> None:
    """Nothing is set there, and that is known."""
    state = state_of(home, shell, "env.user", "env.bashrc", "env.settings", "env.conf")
    assert state.bashrc is not None and not state.bashrc.exists
    assert not [each for each in state.settings or () if each.path.startswith("~")]


def test_the_routes_to_other_nodes(shell: str) -> None:
    """A node itself, one that has a route, one with an unknown name."""
    nodes = (
        Peer(name="itself", address="127.0.0.1"),
        Peer(name="nobody", address="no-such-name.invalid"),
    )
    readings = ask(shell, network.sections(ProbeRequest(nodes=nodes)))
    state = NetworkState.model_validate(taken(readings, network.PARSERS))
    assert readings.unread == []
    assert [(each.node, each.local, each.address) for each in state.routes or ()] == [
        ("itself", True, "127.0.0.1"),
        ("nobody", False, None),
    ]
    assert "lo" in {each.interface for each in state.addresses or ()}
    assert ("lo", "loopback") in {(each.name, each.kind) for each in state.links or ()}


def test_what_an_earlier_user_has_left(home: Path, shell: str) -> None:
    """Of who logs in, where another one trains: files with our block, and no others."""
    (home / ".bashrc").write_bytes(BASHRC)
    (home / ".ssh").mkdir()
    (home / ".ssh" / "authorized_keys").write_text("ssh-rsa AAAA zhang@home\n")
    assert state_of(home, shell, "env.left").left == (str(home / ".bashrc"),)


HERE_DOCUMENTS = r"""cat <<EOT
export NCCL_IN=1
EOT
cat <<-'END' >/dev/null
	export NCCL_IN=2
	END
cat <<"A" << \B
export NCCL_IN=3
A
export NCCL_IN=4
B
cat <<<NCCL_WORD
export NCCL_OUT=5
x=$((1<<y))
export NCCL_OUT=6
# cat <<Z
export NCCL_OUT=7
Z
cat << EOT\r
export NCCL_IN=8\r
EOT\r
echo "<<never"
export NCCL_OUT=9
""".replace(r"\r", "\r")


def test_a_here_document_sets_nothing(home: Path, shell: str) -> None:
    """Its text is no line of the file; one that never ends hides nothing."""
    (home / ".bashrc").write_text(HERE_DOCUMENTS, newline="")
    settings = state_of(home, shell, "env.settings").settings or ()
    mine = [each for each in settings if each.path == "~/.bashrc"]
    assert [(each.name, each.value) for each in mine] == [("NCCL_OUT", n) for n in "5679"]
    assert [each.line for each in mine] == [13, 15, 17, 23]


AWKS = [each for each in ("mawk", "gawk", "busybox", "original-awk") if shutil.which(each)]


@pytest.mark.parametrize("awk", AWKS)
def test_a_here_document_by_each_awk(home: Path, awk: str) -> None:
    """Each of them finds the same."""
    link = home.parent / "bin" / "awk"
    link.symlink_to(str(shutil.which(awk)))
    (home / ".bashrc").write_text(HERE_DOCUMENTS, newline="")
    settings = state_of(home, "dash", "env.settings").settings or ()
    assert [each.value for each in settings if each.path == "~/.bashrc"] == [*"5679"]


# A file that is there, one that is not, a name alone, and what a shell might run.
FILES = {
    "NCCL_TOPO_FILE": "/etc/passwd",
    "NCCL_GRAPH_FILE": "/no/x.xml",
    "NCCL_NET_PLUGIN": "name",
    "NCCL_TUNER_CONFIG_FILE": "/no/$(id >&2)",
}


def test_missing_files_of_lines(home: Path, shell: str) -> None:
    """Of NCCL's own files, those that the user cannot read; a path is only looked at."""
    lines = [f"{name}={value}" for name, value in FILES.items()]
    (home / ".nccl.conf").write_text("\n".join(["#NCCL_GRAPH_FILE=/no/y.xml", *lines]))
    state = state_of(home, shell, "env.conf")
    assert state.missing == ("NCCL_GRAPH_FILE=/no/x.xml",)
    assert [each.text for each in state.conf or () if each.path.startswith("~")][1:] == lines


def own(shell: str, home: Path, login: str, *names: str) -> EnvState:
    """The answer about the SSH user, with another home and login shell."""
    me = pwd.getpwuid(os.getuid()).pw_name
    getent = home.parent / "bin" / "getent"
    getent.write_text(f"#!/bin/sh\necho '{me}:x:1:1::{home}:{login}'\n")
    path = f"{home.parent / 'bin'}:{os.environ['PATH']}"
    sections = env.sections(ProbeRequest())
    surroundings = {"PATH": path, "NCCL_TWO": "a\nNCCL_FAKE=1", "NCCL_ONE": "1", **FILES}
    readings = ask(shell, [each for each in sections if each.name in names], surroundings)
    for section in sections:
        readings.sections.setdefault(section.name, UNASKED)
    state = env.parse(readings)
    assert not {each.section for each in readings.unread} & set(names)
    return state


def test_the_second_line_of_a_value_is_no_variable(home: Path, shell: str) -> None:
    """Whatever it looks like; and the end of the first one is seen."""
    state = own(shell, home, "/bin/bash", "env.launcher")
    variables = state.launcher or {}
    named = {name: value for name, value in variables.items() if name.startswith("NCCL_")}
    assert named == {"NCCL_TWO": "a?NCCL_FAKE=1", "NCCL_ONE": "1", **FILES}
    assert state.missing == ("NCCL_GRAPH_FILE=/no/x.xml",)
    assert not any(name.startswith("missing") for name in variables)


GREETINGS = {
    "": (0, ""),
    "echo >&2 loud\n": (0, ""),
    "printf 'Welcome'\n": (7, "Welcome"),
    "echo; echo 'Willk\xf6mmen'; echo more\n": (18, "Willk??mmen"),
    "case $- in *i*) echo hello ;; esac\n": (0, ""),
    "printf '%090d\\n' 0; exit 3\n": (91, "0" * 80),
}


@pytest.mark.parametrize("text", GREETINGS)
def test_what_a_shell_prints(home: Path, shell: str, text: str) -> None:
    """How many bytes, and the first line that has any, fit for a report."""
    (home / ".bashrc").write_text(text, encoding="utf-8")
    prints = own(shell, home, "/bin/bash", "env.prints").prints
    assert prints is not None
    # The machine's own files may print nothing.
    assert (prints.bytes, prints.first) == GREETINGS[text]


def test_another_shell_is_not_started(home: Path) -> None:
    """What it reads is not known; what is no shell least of all."""
    (home / ".bashrc").write_text("echo hello\n")
    assert own("dash", home, "/bin/false", "env.prints").prints is None


def test_a_home_that_root_may_not_see(home: Path, shell: str) -> None:
    """What lies in it is read as its owner; a server may keep root out (root_squash)."""
    (home / ".bashrc").write_bytes(BASHRC)
    become = home.parent / "bin" / "su"
    become.write_text(
        f"#!/bin/sh\nchmod 755 '{home}'\n/bin/sh -c \"$5\"\ncode=$?\nchmod 0 '{home}'\nexit $code\n"
    )
    root = home.parent / "bin" / "id"
    root.write_text('#!/bin/sh\n[ "$1" = -u ] && echo 0 || echo root\n')
    root.chmod(0o755)
    home.chmod(0)
    state = state_of(home, shell, "env.bashrc", "env.settings", "env.places")
    assert state.bashrc is not None and state.bashrc.lines == 11
    assert state.places is not None and str(home / ".bashrc") in state.places


def test_a_start_file_that_ends_the_shell(home: Path, shell: str) -> None:
    """The reason has the exit code and what was printed, and where to look."""
    become = home.parent / "bin/su"
    become.write_text('#!/bin/sh\necho "no licence"\nexit 7\n')
    sections = env.sections(ProbeRequest(user="train", variables=("OMP_NUM_THREADS",)))
    path = f"{home.parent / 'bin'}:{os.environ['PATH']}"
    (launcher,) = [each for each in sections if each.name == "env.launcher"]
    readings = ask(shell, [launcher], {"PATH": path})
    assert readings.take("env.launcher", env.parse_launcher) is None
    (unread,) = readings.unread
    assert unread.reason == (
        "exit 1: a shell of train ended with 7 first (does ~/.bashrc exit?), after: no licence"
    )

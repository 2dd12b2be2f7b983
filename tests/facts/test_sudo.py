"""What needs root is asked by one sudo, a stand-in; what it refuses by is named."""

from __future__ import annotations

import os
import pty
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_node.facts.ask.sudo import why_refused
from gpu_node.facts.node import ROOT_SECTIONS, sections
from gpu_node.facts.probe.protocol import Readings, Section, read, render
from gpu_node.facts.probe.request import ProbeRequest, request_of
from gpu_node.facts.probe.training_user import AS_USER
from gpu_node.inventories.connection.sudo import Feed
from tests.shells import SHELLS, as_lines, machine_with, run

# The SSH user is another than root until sudo runs.
ID = """#!/bin/sh
case $* in
  -u) [ -n "$BECAME_ROOT" ] && echo 0 || echo 1000 ;;
  *) echo alice ;;
esac
"""
SUDO = """#!/bin/sh
printf '%s\\n' "$*" >>FOLDER/asked
shift 2
BECAME_ROOT=yes SUDO_USER=alice exec "$@"
"""
WHO = 'echo "$(id -u) ${gn_user:-$(id -un)}"'
OWN, ROOTED = Section("a.own", WHO), Section("a.rooted", WHO, root=True)
QUOTES = Section("a.quotes", "echo \"it's\" '$HOME' größe; exit 3", root=True)
SHARED = Section("a.shared", 'echo "$text"', shared=(("text", "it's\nshared"),), root=True)
ASKED = (OWN, ROOTED, QUOTES, SHARED, Section("a.last", WHO))


class Node:
    """A node whose SSH user is not root."""

    def __init__(self, folder: Path, sudo: str = SUDO, *less: str) -> None:
        self.folder = folder
        self.env = machine_with(folder / "bin", "id", *less)
        for name, text in {"id": ID, "sudo": sudo}.items():
            (folder / "bin" / name).write_text(text.replace("FOLDER", str(folder)))
            (folder / "bin" / name).chmod(0o755)

    def ask(
        self,
        shell: str,
        *asked: Section,
        sudo: bool = True,
        feed: Feed | None = None,
        first: str = "",
    ) -> Readings:
        """What the node answers; `feed` is how its sudo gets a password, `first` sh before it."""
        by = {"gn_sudo": feed.shell, "gn_fed": feed.lines} if feed else None
        done = run(shell, first + render(asked, sudo=sudo, by=by), env=self.env)
        assert done.stderr == b""
        return read(as_lines(done.stdout), asked)

    def uses(self) -> list[str]:
        """The arguments of each use of sudo."""
        log = self.folder / "asked"
        return log.read_text().splitlines() if log.exists() else []


@pytest.mark.parametrize("less", [(), ("timeout",)], ids=["timeout", "no-timeout"])
def test_one_sudo_asks_what_needs_root(shell: str, less: tuple[str, ...], tmp_path: Path) -> None:
    """All of it, and nothing else; the log of sudo shows one `sh`."""
    node = Node(tmp_path, SUDO, *less)
    answer = node.ask(shell, *ASKED)
    found = {name: (each.rc, each.text) for name, each in answer.sections.items()}
    assert found == {
        "a.own": (0, "1000 alice"),
        "a.rooted": (0, "0 alice"),
        "a.quotes": (3, "it's $HOME größe"),
        "a.shared": (0, "it's\nshared"),
        "a.last": (0, "1000 alice"),
    }
    assert answer.refusal is None
    assert node.uses() == ["-n -H sh"]


# It reads a line in the place of a terminal, or leaves it to what it runs (NOPASSWD).
ASKING_SUDO = """#!/bin/sh
printf '%s\\n' "$*" >>FOLDER/asked
READS
shift 5
BECAME_ROOT=yes SUDO_USER=alice exec "$@"
"""
FEED = Feed("", "it's a\\b $c", "0f0f")


@pytest.mark.parametrize(
    "reads", ["IFS= read -r given; printf '%s\\n' \"$given\" >FOLDER/given", ":"]
)
@pytest.mark.parametrize("less", [(), ("timeout",)], ids=["timeout", "no-timeout"])
def test_sudo_gets_a_password(
    shell: str, reads: str, less: tuple[str, ...], tmp_path: Path
) -> None:
    """By its stdin; where it reads none, root's shell drops it."""
    node = Node(tmp_path, ASKING_SUDO.replace("READS", reads), *less)
    answer = node.ask(shell, *ASKED, feed=FEED)
    texts = {name: each.text for name, each in answer.sections.items()}
    assert (texts["a.own"], texts["a.rooted"], texts["a.shared"]) == (
        *("1000 alice", "0 alice"),
        "it's\nshared",
    )
    assert answer.refusal is None
    (used,) = node.uses()
    assert used.startswith("-H -k -S -p  sh -c ") and FEED.password not in used
    assert reads == ":" or (tmp_path / "given").read_text() == f"{FEED.password}\n"


def test_no_program_gets_the_password_as_an_argument(shell: str, tmp_path: Path) -> None:
    """Where printf is none of the shell's, sudo is not started."""
    node = Node(tmp_path, ASKING_SUDO.replace("READS", ":"))
    first = 'command() { [ "$2" != printf ] || echo /usr/bin/printf; }\n'
    answer = node.ask(shell, *ASKED, feed=FEED, first=first)
    assert answer.refusal is not None and "no printf of its own" in answer.refusal
    assert node.uses() == [] and answer.sections["a.rooted"].text == "1000 alice"


def test_a_password_that_was_refused_is_sent_no_more(shell: str, tmp_path: Path) -> None:
    """The answer is what sudo printed the first time."""
    node = Node(tmp_path)
    answer = node.ask(shell, *ASKED, feed=Feed("sudo refuses this password: it's wrong"))
    assert answer.refusal == "sudo refuses this password: it's wrong" and node.uses() == []
    assert answer.sections["a.rooted"].text == "1000 alice"
    assert "--limit" in why_refused(answer.refusal).fix


def test_without_sudo_in_the_inventory_none_is_used(shell: str, tmp_path: Path) -> None:
    """Everything is asked as the SSH user."""
    node = Node(tmp_path)
    answer = node.ask(shell, *ASKED, sudo=False)
    assert answer.sections["a.rooted"].text == "1000 alice"
    assert (answer.refusal, node.uses()) == (None, [])


@pytest.mark.parametrize("less", [(), ("timeout",)], ids=["timeout", "no-timeout"])
def test_sudo_asks_more_than_an_argument_takes(
    shell: str, less: tuple[str, ...], tmp_path: Path
) -> None:
    """128 KiB is also the limit of one environment variable."""
    long = "\n".join([*[f": {'x' * 90}"] * 500, WHO])
    asked = [Section(f"root.{count}", long, root=True) for count in range(4)]
    answer = Node(tmp_path, SUDO, *less).ask(shell, *asked)
    assert [each.require() for each in answer.sections.values()] == ["0 alice"] * 4


def test_root_needs_no_sudo(shell: str, tmp_path: Path) -> None:
    """An inventory may say so for all nodes, and one of them lets root in."""
    node = Node(tmp_path)
    node.env["BECAME_ROOT"] = "yes"
    answer = node.ask(shell, *ASKED)
    assert answer.sections["a.rooted"].text == "0 alice"
    assert (answer.refusal, node.uses()) == (None, [])


TTY = "sudo: sorry, you must have a tty to run sudo"


@pytest.mark.parametrize(
    ("sudo", "words"),
    [
        (f"#!/bin/sh\necho '{TTY}' >&2\nexit 1\n", TTY),
        ("#!/bin/sh\nprintf 'Grüße\\nsudo: a password is required\\n' >&2\nexit 1\n", "Grüße"),
        ("#!/bin/sh\nexit 1\n", "exit 1, no output"),
    ],
)  # fmt: skip
def test_a_refusal_is_reported(shell: str, sudo: str, words: str, tmp_path: Path) -> None:
    """What needs root is asked as the SSH user then: a part of it may be readable."""
    answer = Node(tmp_path, sudo).ask(shell, *ASKED)
    assert answer.refusal is not None and answer.refusal.startswith(words)
    assert answer.sections["a.rooted"].text == "1000 alice"
    assert answer.sections["a.shared"].text == "it's\nshared"


def test_sudo_is_not_installed(shell: str, tmp_path: Path) -> None:
    """The shell's words are taken for a refusal."""
    node = Node(tmp_path)
    (tmp_path / "bin" / "sudo").unlink()
    refusal = node.ask(shell, *ASKED).refusal
    assert refusal is not None and why_refused(refusal).reason == "sudo is not installed"


def test_what_sudo_prints_beside_the_answer_does_no_harm(shell: str, tmp_path: Path) -> None:
    """A host name that does not resolve, a greeting in another encoding, a long lecture."""
    noise = "printf 'sudo: unable to resolve host \\377\\n' >&2\n"
    answer = Node(tmp_path, SUDO.replace("shift 2", f"{noise}shift 2")).ask(shell, *ASKED)
    assert answer.refusal is None
    assert answer.sections["a.rooted"].text == "0 alice"


def test_a_sudo_that_hangs(shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is read, and what needs root is unreadable with the reason."""
    monkeypatch.setattr("gpu_node.facts.probe.protocol.SUDO_SECONDS", -9)
    answer = Node(tmp_path, "#!/bin/sh\nexec sleep 20\n").ask(shell, OWN, ROOTED)
    assert answer.sections["a.own"].text == "1000 alice"
    assert answer.take("a.rooted", str) is None
    assert answer.unread[0].reason == "sudo: no answer within 1 s"
    assert answer.refusal is not None and "does not answer" in why_refused(answer.refusal).reason


def test_long_words_are_cut(tmp_path: Path) -> None:
    """A node that prints without an end fills no report."""
    node = Node(tmp_path, "#!/bin/sh\nhead -c 100000 /dev/zero | tr '\\0' x >&2\nexit 1\n")
    answer = node.ask("dash", ROOTED)
    assert answer.refusal is not None and len(answer.refusal) == 1000


REFUSALS = {
    TTY: "`Defaults:alice !requiretty`",
    "sudo: a password is required": "--ask-sudo-password, or with visudo",
    "sudo: sorry, a password is required to run sudo": "NOPASSWD",
    "sudo: a terminal is required to read the password; either use the -S option": "NOPASSWD",
    "sudo: no tty present and no askpass program specified": "NOPASSWD",
    "sudo-rs: interactive authentication is required": "NOPASSWD",
    "alice is not in the sudoers file.  This incident will be reported.": "NOPASSWD",
    "Sorry, user alice is not allowed to execute '/bin/sh' as root on a100-01.": "NOPASSWD",
    "bash: sudo: command not found": "install sudo",
    "sh: 1: sudo: not found": "install sudo",
    ">>> /etc/sudoers: syntax error near line 3 <<<": "visudo -c",
    "sudo: /etc/sudoers is world writable": "visudo -c",
    'sudo: The "no new privileges" flag is set, which prevents sudo from running': "option",
    "sudo: Account or password is expired, reset your password and try again": "chage -l alice",
    "something new": "NOPASSWD",
}


@pytest.mark.parametrize("words", REFUSALS)
def test_sudos_words(words: str) -> None:
    """Each has a reason that names no placeholder, a next step, and itself."""
    refused = why_refused(f"a lecture\n\n{words}\n", "alice")
    assert REFUSALS[words] in refused.fix
    assert refused.words == words
    assert "USER" not in refused.reason + refused.fix


def test_requiretty_is_named() -> None:
    """The setting, what it forbids, and the line that lifts it for the user."""
    refused = why_refused(TTY, "alice")
    assert refused.reason.startswith("requiretty is set in the node's sudoers: ")
    assert "visudo -f /etc/sudoers.d/gpu-node" in refused.fix


def test_what_is_never_asked_as_root() -> None:
    """What jobs get: their limits, PATH and Python; and what is in the SSH user's home."""
    own = {"limits.session", "limits.user", "toolchain.cmake", "nccl.loader", "env.left"}
    assert ROOT_SECTIONS.isdisjoint(own)
    named = ProbeRequest(user="alice", mesh=True, sudo=True, environments=("/opt/conda",))
    rooted = {each.name for each in sections(named) if each.root}
    # Files of apt with a password in them are closed; those of a home are read as its owner.
    rooted.remove("env.proxies")
    assert not [each for each in rooted if each.startswith(("env.", "workspace.", "nccl.env"))]
    assert not rooted & {"ssh.account", "ssh.authorized", "ssh.known", "ssh.logins"}


@pytest.mark.parametrize(
    ("data", "apart"),
    [
        ({"ssh_user": "alice"}, False),
        ({"ssh_user": "alice", "launcher_user": "alice"}, False),
        ({"ssh_user": "alice", "launcher_user": "train"}, True),
    ],
)
def test_another_user_who_trains(data: dict[str, str], apart: bool) -> None:
    """Into that home only root may look."""
    named = request_of({**data, "nccl_environments": ["/opt/conda"], "_sudo": True})
    assert named.trains_apart == apart
    rooted = {each.name for each in sections(named) if each.root}
    assert ({"env.bashrc", "ssh.account", "nccl.environment:/opt/conda"} <= rooted) == apart


def test_with_a_password_no_section_of_the_ssh_user_starts_sudo() -> None:
    """It would be refused: what another account owns is not run then, and the report says so."""
    asked = ProbeRequest(environments=("/opt/conda",), sudo=True)
    for request, sudo in ((asked, "yes"), (replace(asked, asks=True), "no")):
        named = {each.name: each for each in sections(request)}
        command = named["nccl.environment:/opt/conda"].command
        assert f"owner_sudo={sudo}\n" in command


def test_another_user_gets_no_terminal(shell: str, tmp_path: Path) -> None:
    """The script of `gpu-node probe` runs at one: that user could type commands into it."""
    sudo = tmp_path / "sudo"
    sudo.write_text('#!/bin/sh\nshift 3\nexec "$@"\n')  # as before 1.9.14
    sudo.chmod(0o755)
    script = f"gn_uid=1 gn_me=me user=other\n{AS_USER}\nas_user 'cut -d\" \" -f7 /proc/self/stat'"
    program, *options = SHELLS[shell]
    words = ["env", f"PATH={tmp_path}:{os.environ['PATH']}", program, *options, "-c", script]
    child, terminal = pty.fork()
    if child == 0:
        os.execvp(words[0], words)
    printed = os.read(terminal, 100)
    os.waitpid(child, 0)
    os.close(terminal)
    assert printed.split() == [b"0"]

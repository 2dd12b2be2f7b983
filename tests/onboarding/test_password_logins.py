"""Turning password logins off: it holds with a way in left, or everything is as it was."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from paramiko import ECDSAKey, PKey
from typing_extensions import override

from gpu_node.deploy.engine import scripts
from gpu_node.deploy.engine.scripts import text
from gpu_node.deploy.files import replace as replacement
from gpu_node.facts.limits import confirmed
from gpu_node.facts.limits.confirmed import SSHD as MAIN
from gpu_node.facts.limits.confirmed import SSHD_FIRST as OWN
from gpu_node.onboarding.errors import ContactError
from gpu_node.onboarding.trust import password_logins as room
from gpu_node.onboarding.trust.login import methods, open_session
from gpu_node.onboarding.trust.password_logins import refuse_passwords
from gpu_node.onboarding.trust.session import Session
from tests.node_scripts import tree
from tests.onboarding.serving import Sshd
from tests.shells import SHELLS

DEBIAN = "# a comment\nInclude /etc/ssh/sshd_config.d/*.conf\n\nPasswordAuthentication yes\n"
CENTOS_7 = "#Port 22\r\nPermitRootLogin yes\nPasswordAuthentication yes\nMatch User x\n"
PLACES = {
    "Debian, Ubuntu, Rocky": (DEBIAN, OWN),
    "relative, in quotes of its own": ('Include "x" sshd_config.d/*.conf\n', OWN),
    "an equals sign": ("include=/etc/ssh/sshd_config.d/00-gpu-node.conf\n", OWN),
    "CentOS 7": (CENTOS_7, MAIN),
    "below the value": ("passwordauthentication yes\n" + DEBIAN, MAIN),
    "below a Match": ("Match all\n" + DEBIAN, MAIN),
    "elsewhere": ("Include /etc/ssh/other.d/*.conf\n", MAIN),
    "a comment": ("#Include /etc/ssh/sshd_config.d/*.conf\n", MAIN),
    "empty": ("", MAIN),
}


@pytest.mark.parametrize(("config", "place"), PLACES.values(), ids=PLACES)
def test_which_file_is_written(config: str, place: str) -> None:
    """In a file of our own where that one is read first; else at the top of the main one."""
    assert room._place(config) == place


@pytest.fixture
def etc(sshd: Sshd, key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a server's configuration; `read` beside it is what its sshd has read."""
    etc = tmp_path / "etc"
    (etc / "sshd_config.d").mkdir(parents=True)
    (etc / "sshd_config").write_text(CENTOS_7)
    (etc / "sshd_config").chmod(0o600)
    monkeypatch.setattr(
        confirmed,
        "FILES",
        {str(etc / name) for name in ("sshd_config", "sshd_config.d/00-gpu-node.conf")},
    )
    monkeypatch.setattr(room, "MAIN", str(etc / "sshd_config"))
    monkeypatch.setattr(room, "OWN", str(etc / "sshd_config.d" / "00-gpu-node.conf"))
    monkeypatch.setattr(room, "_SETTLE_SECONDS", 1)
    monkeypatch.setattr(replacement, "backups", lambda: str(tmp_path / "backups"))
    monkeypatch.setattr(scripts, "LOCK", str(tmp_path / "lock"))
    sshd.running = tmp_path / "read"
    sshd.running.touch()
    reload = f"\ncat {etc}/sshd_config.d/* {etc}/sshd_config >{sshd.running} 2>/dev/null\n:\n"
    reloading(monkeypatch, reload)
    programs(sshd, "exit 0")
    sshd.authorized = [ECDSAKey.from_private_key_file(str(key))]
    return etc


def reloading(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Have the server's sshd read its configuration by that."""
    monkeypatch.setattr(room, "text", lambda name: script)


def programs(sshd: Sshd, script: str) -> None:
    """Put an `sshd` into the server's PATH."""
    folder = sshd.home.parent / "bin"
    folder.mkdir(exist_ok=True)
    (folder / "sshd").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "sshd").chmod(0o755)
    sshd.path = f"{folder}:"


@pytest.fixture
def session(etc: Path, sshd: Sshd, key: Path) -> Iterator[Session]:
    """One that is held open all the while."""
    with open_session(sshd.server(key=key), sshd.host_key) as session:
        yield session


def refusal(session: Session, sshd: Sshd, etc: Path) -> str:
    """Why it was not done; everything is as it was, for sshd as well."""
    before = tree(etc)
    with pytest.raises(ContactError) as caught:
        refuse_passwords(session, sshd.host_key)
    assert tree(etc) == before
    assert "password" in methods(session.server, sshd.host_key)
    return str(caught.value)


def test_in_the_main_file(session: Session, sshd: Sshd, etc: Path, tmp_path: Path) -> None:
    """At its top, all other bytes and the mode as before; the old one is kept."""
    assert refuse_passwords(session, sshd.host_key)
    file = etc / "sshd_config"
    assert tree(etc) == {"sshd_config": (room._TEXT + CENTOS_7).encode()}
    assert file.stat().st_mode & 0o777 == 0o600
    assert Path(f"{tmp_path}/backups{file}").read_bytes() == CENTOS_7.encode()
    assert methods(session.server, sshd.host_key) == ("publickey",)
    assert not refuse_passwords(session, sshd.host_key)
    assert tree(etc) == {"sshd_config": (room._TEXT + CENTOS_7).encode()}


def test_in_a_file_of_our_own(session: Session, sshd: Sshd, etc: Path) -> None:
    """Where the main one reads it; nothing else is touched."""
    config = f"Include {etc}/sshd_config.d/*.conf\nPasswordAuthentication yes\n"
    (etc / "sshd_config").write_text(config)
    assert refuse_passwords(session, sshd.host_key)
    assert tree(etc) == {
        "sshd_config": config.encode(),
        "sshd_config.d/00-gpu-node.conf": room._TEXT.encode(),
    }


def test_it_is_judged_as_a_whole(session: Session, sshd: Sshd, etc: Path, tmp_path: Path) -> None:
    """Our own file says too little by itself: host keys may be named in the main one."""
    config = f"Include {etc}/sshd_config.d/*.conf\nHostKey /x\n"
    (etc / "sshd_config").write_text(config)
    programs(sshd, f'[ "$1 $2" = "-t -f" ] && cat "$3" >{tmp_path}/judged')
    assert refuse_passwords(session, sshd.host_key)
    assert (tmp_path / "judged").read_text() == room._TEXT + config


def test_what_sshd_cannot_read(session: Session, sshd: Sshd, etc: Path) -> None:
    """It never gets into place."""
    programs(sshd, "echo 'line 3: Bad configuration option' >&2; exit 255")
    assert "line 3: Bad configuration option" in refusal(session, sshd, etc)


def test_no_way_in_by_key(session: Session, sshd: Sshd, etc: Path) -> None:
    """Nothing is begun."""
    sshd.authorized = []
    assert "is refused, though" in refusal(session, sshd, etc)


def test_the_methods_are_unknown(session: Session, sshd: Sshd, etc: Path) -> None:
    """It hangs up before it lists them: that does not prove that it takes no passwords."""

    def hang_up() -> None:
        sshd.on_none = None
        raise EOFError

    sshd.on_none = hang_up
    assert "does not list its login methods" in refusal(session, sshd, etc)


def test_hung_up_after_the_change(session: Session, sshd: Sshd, etc: Path) -> None:
    """It is asked again: no answer is no proof that passwords are off."""
    asked: list[str] = []

    def hang_up() -> None:
        asked.append("")
        if len(asked) == 2:
            raise EOFError

    sshd.on_none = hang_up
    assert refuse_passwords(session, sshd.host_key)
    assert len(asked) == 3


def test_a_login_without_any_password(session: Session, sshd: Sshd, etc: Path) -> None:
    """An error, and nothing is begun."""
    before = tree(etc)
    sshd.accepts_none = True
    with pytest.raises(ContactError, match=r"can log in without a password .*passwd root"):
        refuse_passwords(session, sshd.host_key)
    assert tree(etc) == before


def cut_off(session: Session, sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a run be killed before it confirms."""

    def killed(*_: object) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(room, "_not_kept", killed)
        refuse_passwords(session, sshd.host_key)


def test_an_earlier_run_was_cut_off(
    session: Session, sshd: Sshd, etc: Path, pending: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one confirms it by a login: the node would undo it, passwords being off by then."""
    cut_off(session, sshd, monkeypatch)
    assert pending.exists()
    assert not refuse_passwords(session, sshd.host_key)
    assert not pending.exists()
    assert tree(etc) == {"sshd_config": (room._TEXT + CENTOS_7).encode()}


def test_an_earlier_run_has_locked_out(
    session: Session, sshd: Sshd, etc: Path, pending: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is put back, for sshd as well, over the session that is open."""
    before = tree(etc)
    cut_off(session, sshd, monkeypatch)
    monkeypatch.setattr(sshd, "authorized", Vanishing(sshd))
    room.settle(session, sshd.host_key)
    assert (tree(etc), pending.exists()) == (before, False)
    assert "password" in methods(session.server, sshd.host_key)


def test_the_key_no_longer_works(
    session: Session, sshd: Sshd, etc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the new configuration: it is put back over the session that was held."""
    monkeypatch.setattr(sshd, "authorized", Vanishing(sshd))
    assert "the earlier file was restored" in refusal(session, sshd, etc)


class Vanishing(list[PKey]):
    """Keys that are let in until passwords are off."""

    def __init__(self, sshd: Sshd) -> None:
        super().__init__(sshd.authorized)
        self.sshd = sshd

    @override
    def __contains__(self, key: object) -> bool:
        assert self.sshd.running
        return "PasswordAuthentication no" not in self.sshd.running.read_text() and (
            super().__contains__(key)
        )


@pytest.mark.parametrize(
    ("reload", "output"),
    [
        (":", "sshd still accepts password"),
        ("echo 'no such unit' >&2; false", "no such unit"),
    ],
)
def test_a_reload_that_is_none(
    session: Session,
    sshd: Sshd,
    etc: Path,
    monkeypatch: pytest.MonkeyPatch,
    reload: str,
    output: str,
) -> None:
    """The files are put back, and the error has the reason."""
    reloading(monkeypatch, f"\n{reload}\n")
    assert output in refusal(session, sshd, etc)


@pytest.fixture
def reload(shell: str, tmp_path: Path) -> Callable[[], tuple[int, str]]:
    """Run the real script beside an sshd of the test's own; the folder has its programs."""

    def run() -> tuple[int, str]:
        done = subprocess.run(
            [*SHELLS[shell], "-c", text("reload_sshd")],
            env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=20,
        )
        return done.returncode, done.stderr

    return run


# Its configuration is right; a signal to its process is written beside it.
SSHD = """#!/bin/sh
case $1 in
-t) exit 0 ;;
-T) echo "port 22"; echo "pidfile {folder}/pid" ;;
-D) trap 'echo hup >>{folder}/signals' HUP; echo $$ >{folder}/pid; while :; do sleep 0.05; done ;;
esac
"""


@pytest.mark.skipif(Path("/run/systemd/system").exists(), reason="this machine has systemd")
def test_reload(reload: Callable[[], tuple[int, str]], tmp_path: Path) -> None:
    """The process gets a signal if it is an sshd; without one there is an error."""
    program = tmp_path / "sshd"
    program.write_text(SSHD.format(folder=tmp_path))
    program.chmod(0o755)
    code, err = reload()
    assert (code, "cannot tell which process" in err) == (1, True)
    (tmp_path / "pid").write_text(f"{os.getpid()}\n")
    code, err = reload()
    assert (code, "cannot tell which process" in err) == (1, True)
    # A shell cannot trap what it was started to ignore, as below nohup.
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    with subprocess.Popen([program, "-D"]) as daemon:
        signal.signal(signal.SIGHUP, before)
        try:
            end = time.monotonic() + 20
            while (tmp_path / "pid").read_text() != f"{daemon.pid}\n" and time.monotonic() < end:
                time.sleep(0.02)
            assert reload() == (0, "")
            while not (tmp_path / "signals").exists() and time.monotonic() < end:
                time.sleep(0.02)
            assert (tmp_path / "signals").read_text() == "hup\n"
        finally:
            daemon.kill()

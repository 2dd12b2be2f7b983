"""The controller's key in authorized_keys: one line more, every other byte as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyinfra.api import StringCommand

from gpu_node.deploy.engine.scripts import as_run
from gpu_node.lab.machine import as_root
from gpu_node.onboarding.errors import ContactError
from gpu_node.onboarding.trust.keys import install_key, public_key
from gpu_node.onboarding.trust.login import KeyRefused, open_session, prove_key
from gpu_node.onboarding.trust.password import Secret
from gpu_node.onboarding.trust.session import Result
from tests.node_scripts import Ended, run, tree
from tests.onboarding.serving import PASSWORD, Sshd

LINE = "ssh-ed25519 AAAAC3Nza+/= zhang@home it's"
KEY = " ".join(LINE.split()[:2])
BEFORE = {
    "none": None,
    "empty": b"",
    "a line": b"ssh-rsa AAAA x\n",
    "no newline at the end": b"# mine\r\n\n  ssh-rsa AAAA\tx",
    "any bytes": b"# m\xfcll %s \\n\n",
    "the key in a comment": f"# {LINE}\n".encode(),
    "options of another key": f'from="192.0.2.1" {KEY}A\ncommand="x {LINE}" ssh-rsa A\n'.encode(),
    "a comment with options": f'#from="192.0.2.1" {LINE}\n'.encode(),
    "a longer key": f"{KEY}A x\n".encode(),
}
RESTRICTED = {
    "from": f'# mine\nfrom="192.0.2.1,198.51.100.*" {LINE}\n',
    "blanks and quotes": f'ssh-rsa AAAA\n command="/bin/x \\"a b\\" \\\\",no-pty {KEY}\r\n',
    "several": f'restrict {KEY}\ncommand="/bin/x" {LINE}',
}
THERE = {"by itself": f"# mine\n{LINE}\n", "with another comment": f" {KEY}\r\nssh-rsa AAAA"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with nothing in it."""
    home = tmp_path / "it's home"
    home.mkdir(0o755)
    return home


def authorize(home: Path, shell: str, backups: Path | str = "") -> Ended:
    """Run the script, without the search for the home."""
    given = {"home": str(home), "line": LINE, "backups": str(backups and Path(backups) / "RUN")}
    return run(StringCommand(as_run("authorize", **given)), shell)


@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
def test_a_key_is_let_in(home: Path, shell: str, before: bytes | None) -> None:
    """A line at the end; a second time there is nothing to do."""
    file = home / ".ssh" / "authorized_keys"
    if before is not None:
        file.parent.mkdir(0o700)
        file.write_bytes(before)
        file.chmod(0o640)
    assert authorize(home, shell) == Ended(0, "changed\n", "")
    gap = b"\n" if before and not before.endswith(b"\n") else b""
    assert file.read_bytes() == (before or b"") + gap + LINE.encode() + b"\n"
    assert file.stat().st_mode & 0o777 == (0o600 if before is None else 0o640)
    assert file.parent.stat().st_mode & 0o777 == 0o700
    left = {} if before is None else {"authorized_keys.before-gpu-node": before}
    assert tree(file.parent) == {"authorized_keys": file.read_bytes(), **left}
    files = tree(home)
    assert authorize(home, shell) == Ended(0, "there\n", "")
    assert tree(home) == files


@pytest.mark.parametrize("before", THERE.values(), ids=THERE)
def test_a_key_that_is_in_already(home: Path, shell: str, before: str) -> None:
    """Nothing is written, and no backup is needed."""
    file = home / ".ssh" / "authorized_keys"
    file.parent.mkdir(0o700)
    file.write_bytes(before.encode())
    file.chmod(0o600)
    assert authorize(home, shell) == Ended(0, "there\n", "")
    assert tree(home) == {".ssh/authorized_keys": before.encode()}


@pytest.mark.parametrize("before", RESTRICTED.values(), ids=RESTRICTED)
def test_a_key_with_options(home: Path, shell: str, before: str) -> None:
    """What its owner restricts is left alone; it is closed to others all the same."""
    file = home / ".ssh" / "authorized_keys"
    file.parent.mkdir(0o700)
    file.write_bytes(before.encode())
    file.chmod(0o660)
    assert authorize(home, shell) == Ended(0, "changed\n", "")
    assert authorize(home, shell) == Ended(0, "restricted\n", "")
    assert tree(home) == {".ssh/authorized_keys": before.encode()}
    assert file.stat().st_mode & 0o777 == 0o640


def test_a_roots_backup(home: Path, shell: str, tmp_path: Path) -> None:
    """It lies with those of every run; the first one stays."""
    file = home / ".ssh" / "authorized_keys"
    file.parent.mkdir(0o700)
    file.write_bytes(b"first")
    assert authorize(home, shell, tmp_path / "backups").code == 0
    file.write_bytes(b"second")
    assert authorize(home, shell, tmp_path / "backups").code == 0
    assert Path(f"{tmp_path}/backups/RUN{file}").read_bytes() == b"first"
    assert [path.name for path in file.parent.iterdir()] == ["authorized_keys"]


def test_what_sshd_would_refuse(home: Path, shell: str) -> None:
    """No other user may write to them; read permission stays."""
    folder = home / ".ssh"
    folder.mkdir()
    (folder / "authorized_keys").write_text(f"{LINE}\n")
    for path, mode in ((home, 0o775), (folder, 0o777), (folder / "authorized_keys", 0o666)):
        path.chmod(mode)
    assert authorize(home, shell).out == "changed\n"
    paths = (home, folder, folder / "authorized_keys")
    assert [path.stat().st_mode & 0o777 for path in paths] == [0o755, 0o755, 0o644]
    assert authorize(home, shell).out == "there\n"


def test_links(home: Path, shell: str, tmp_path: Path) -> None:
    """One to a file of the same owner stays one; one to another's is refused."""
    real = tmp_path / "keys"
    real.write_text("ssh-rsa AAAA\n")
    (home / ".ssh").mkdir(0o700)
    link = home / ".ssh" / "authorized_keys"
    link.symlink_to(real)
    assert authorize(home, shell, tmp_path / "backups").code == 0
    assert link.is_symlink()
    assert real.read_text() == f"ssh-rsa AAAA\n{LINE}\n"
    real.write_text("theirs")
    as_root(["chown", "12345", real])
    done = authorize(home, shell)
    assert done.code == 1
    assert f"{real} is another user's; nothing was changed" in done.err
    assert real.read_text() == "theirs"


def test_what_lies_beside_it_is_not_written_into(home: Path, shell: str, tmp_path: Path) -> None:
    """The name of the new file can be foreseen."""
    victim = tmp_path / "victim"
    victim.write_text("theirs")
    (home / ".ssh").mkdir(0o700)
    (home / ".ssh" / ".authorized_keys.gpu-node").symlink_to(victim)
    assert authorize(home, shell).code == 0
    assert victim.read_text() == "theirs"
    assert tree(home) == {".ssh/authorized_keys": f"{LINE}\n".encode()}


def test_no_folder_can_be_made(home: Path, shell: str) -> None:
    """Nothing is changed, and the error has the reason; also without a home."""
    (home / ".ssh").write_text("a file")
    done = authorize(home, shell)
    assert (done.code, tree(home)) == (1, {".ssh": b"a file"})
    assert "its folder cannot be made; nothing was changed" in done.err
    assert "its home is missing" in authorize(home / "gone", shell).err


def test_from_a_password_to_a_key(account: Sshd, key: Path) -> None:
    """The key is let in over a session by password; after that none is needed."""
    server = account.server(key=key)
    with pytest.raises(KeyRefused, match=r"though ~root/\.ssh/authorized_keys should"):
        prove_key(server, account.host_key)
    with open_session(server, account.host_key, Secret(PASSWORD)) as session:
        assert session.by == "password"
        assert install_key(session, public_key(server))
        assert not install_key(session, public_key(server))
    account.methods = "publickey"
    prove_key(server, account.host_key)


def test_a_session_by_key(account: Sshd, key: Path) -> None:
    """Nothing is let in, whatever options the key has there."""
    server = account.server(key=key)
    account.authorized_keys.parent.mkdir(0o700)
    before = f'from="127.0.0.1" {public_key(server)}\n'
    account.authorized_keys.write_text(before)
    with open_session(server, account.host_key) as session:
        assert not install_key(session, public_key(server))
    assert account.authorized_keys.read_text() == before


def test_a_key_that_its_options_keep_out(account: Sshd) -> None:
    """A session by password does not undo them; it is an error."""
    account.authorized_keys.parent.mkdir(0o700)
    account.authorized_keys.write_text(f'from="192.0.2.1" {LINE}\n')
    account.authorized_keys.chmod(0o600)
    with (
        open_session(account.server(), account.host_key, Secret(PASSWORD)) as session,
        pytest.raises(ContactError, match="has this machine's key with options"),
    ):
        install_key(session, LINE)
    assert account.authorized_keys.read_text() == f'from="192.0.2.1" {LINE}\n'


def test_what_is_no_key(account: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    """It never gets there; the error has the output of the script."""
    with open_session(account.server(), account.host_key, Secret(PASSWORD)) as session:
        for bad in ("ssh-rsa AAAA\nssh-rsa BBBB", "nothing", "ssh-rsa AAAA \x1b"):
            with pytest.raises(ContactError, match="is not a public key"):
                install_key(session, bad)
        (account.home / ".ssh").write_text("a file")
        with pytest.raises(ContactError, match=r"could not be let in: .*cannot be made"):
            install_key(session, LINE)
        monkeypatch.setattr(session, "run", lambda *_: Result(0, [], ""))
        with pytest.raises(ContactError, match="could not be let in"):
            install_key(session, LINE)

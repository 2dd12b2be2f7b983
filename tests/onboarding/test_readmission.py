"""Again: a server that lost this machine's key is let in anew by a password, never unasked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_node.deploy.console import UserConsole
from gpu_node.inventories.errors import Unconfirmed
from gpu_node.onboarding import journal
from gpu_node.onboarding.admission import Admission, Options, Request
from gpu_node.onboarding.errors import ContactError, Stopped
from gpu_node.onboarding.inventory_files import Site, site_of
from gpu_node.onboarding.journal import Journal
from gpu_node.onboarding.trust.host_keys import pin
from gpu_node.onboarding.trust.keys import public_key
from gpu_node.onboarding.trust.password import Secret
from gpu_node.onboarding.trust.session import Session
from tests.onboarding.serving import PASSWORD, Sshd

CLUSTER = """\
cluster: c
defaults: {{ssh: {{user: root, key: {key}, known_hosts: {known_hosts}, mesh: true}}}}
groups: {{v100: {{}}}}
hosts:
  a100-01: {{address: 192.0.2.10, group: v100}}
  n: {{address: 127.0.0.1, group: v100, ssh: {{port: {port}}}}}
"""
GIVEN = Options(secret=Secret(PASSWORD))
SENTENCE = (
    r"accepts no key of this machine; next: give a password \(GPU_NODE_PASSWORD, --password-stdin"
)

Again = Callable[..., bool]


@pytest.fixture
def site(account: Sshd, key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """The inventory has the server, whose host key is pinned, and which has lost our key."""
    # The server's commands run as the user who runs the tests, who may be another than root.
    monkeypatch.setattr(Session, "sudo_refusal", lambda _: "")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    server = account.server(key=key)
    pin(server, account.host_key, account.keys)
    text = CLUSTER.format(key=key, known_hosts=server.known_hosts, port=account.port)
    (tmp_path / "site.yml").write_text(text)
    (tmp_path / "site.py").write_text("")
    return site_of(str(tmp_path / "site.yml"))


def begin(site: Site, account: Sshd) -> None:
    """Record that its onboarding has begun."""
    made = Journal(name="n", address="127.0.0.1", user="root", port=account.port)
    journal.write(site, made)


def again(site: Site, options: Options, yes: bool = True) -> tuple[bool, Journal]:
    """Ask the server, its port omitted; return whether it joins, and its journal."""
    admission = Admission(site, Request("n"), options, UserConsole(yes))
    joins = admission.let_in_again(True)
    return joins, admission.journal


def let_in(account: Sshd, key: Path) -> None:
    """Have its owner let our key in."""
    account.authorized_keys.parent.mkdir(0o700)
    account.authorized_keys.write_text(public_key(account.server(key=key)))


def test_an_unfinished_server_is_let_in_again(site: Site, account: Sshd) -> None:
    """It may have been reinstalled: all stages run again."""
    begin(site, account)
    assert again(site, GIVEN) == (True, journal.read(site, "n"))
    assert account.authorized_keys.is_file()


def test_one_that_still_lets_us_in_goes_on(site: Site, account: Sshd, key: Path) -> None:
    begin(site, account)
    let_in(account, key)
    joins, found = again(site, GIVEN)
    assert (joins, found, account.attempts.count("password")) == (True, journal.read(site, "n"), 0)


def test_a_member_is_let_in_and_joins_again(site: Site, account: Sshd) -> None:
    """Only after the user has confirmed the deploy."""
    error = (
        "^found no terminal to confirm that its key is let in again; allowed: a terminal, or -y$"
    )
    with pytest.raises(Unconfirmed, match=error):
        again(site, GIVEN, yes=False)
    assert not account.authorized_keys.exists()
    assert again(site, GIVEN)[0]
    assert account.authorized_keys.is_file()
    assert journal.read(site, "n") is not None


def test_a_member_that_lets_us_in_is_only_looked_at(site: Site, account: Sshd, key: Path) -> None:
    let_in(account, key)
    assert not again(site, GIVEN)[0]
    assert journal.read(site, "n") is None


@pytest.mark.parametrize("was_begun", [True, False])
def test_without_a_password_it_says_who_can_give_one(
    site: Site, account: Sshd, was_begun: bool
) -> None:
    if was_begun:
        begin(site, account)
    with pytest.raises(Stopped, match=SENTENCE):
        again(site, Options())
    assert not account.authorized_keys.exists()


def test_with_dry_nothing_is_changed(
    site: Site, account: Sshd, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(site, account)
    before = journal.read(site, "n")
    assert again(site, Options(secret=Secret(PASSWORD), dry=True))[0]
    assert journal.read(site, "n") == before and "password" not in account.attempts
    output = capsys.readouterr()
    assert "with the password it would be let in again" in output.err
    assert "done before: pre-flight, entry; would be done now: contact, mesh, " in output.out


def test_with_dry_the_stages_are_listed(
    site: Site, account: Sshd, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(site, account)
    let_in(account, key)
    assert again(site, Options(dry=True))[0]
    assert capsys.readouterr().out == (
        f"{site.file} has it already; done before: contact, pre-flight, entry; would be done now: "
        "mesh, deploy, report, verify\n"
    )


def test_another_host_key_gets_no_password(
    site: Site, account: Sshd, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report shows both keys of a member; one that was begun stops."""
    known = account.server().known_hosts
    other = known.read_text().replace("AAAAE2VjZHNh", "AAAAE2VjZHNi")
    known.write_text(other)
    assert not again(site, GIVEN)[0]
    assert capsys.readouterr().err.endswith("in?\n  it cannot be asked; the report shows why\n")
    begin(site, account)
    with pytest.raises(ContactError, match=r"has changed \(pinned"):
        again(site, GIVEN)
    assert capsys.readouterr().err.endswith("still let this machine in?\n  it cannot be asked\n")
    assert "password" not in account.attempts and known.read_text() == other


def test_a_server_that_is_down_is_not_asked(site: Site, account: Sshd) -> None:
    text = site.text().replace(f"port: {account.port}", "port: 1")
    site.file.write_text(text)
    assert not again(site, GIVEN)[0]

"""Again: a server that lost this machine's key is let in anew by a password, never unasked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from onboarding import journal
from onboarding.admission import Admission, Terms, Wish
from onboarding.again import let_in_again
from onboarding.contact import ContactError, pin
from onboarding.journal import Journal
from onboarding.keys import public_key
from onboarding.password import Secret
from onboarding.screen import Screen
from onboarding.session import Session
from onboarding.site import Site, site_of
from onboarding.stopped import Stopped
from tests.onboarding.serving import PASSWORD, Sshd

CLUSTER = """\
cluster: c
defaults: {{ssh: {{user: root, key: {key}, known_hosts: {known_hosts}, mesh: true}}}}
groups: {{v100: {{}}}}
hosts:
  a100-01: {{address: 192.0.2.10, group: v100}}
  n: {{address: 127.0.0.1, group: v100, ssh: {{port: {port}}}}}
"""
GIVEN = Terms(secret=Secret(PASSWORD))
SENTENCE = r"takes no key of this machine; give a password \(GPU_NODE_PASSWORD, --password-stdin"

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
    """Have it begun, and known to the others by now."""
    made = Journal(name="n", address="127.0.0.1", user="root", port=account.port)
    journal.write(site, made.with_stage("mesh", site.digest()))


def again(site: Site, terms: Terms, yes: bool = True) -> tuple[bool, Journal]:
    """Ask the server, its port not said again; return whether it joins, and its journal."""
    admission = Admission(site, Wish("n"), terms, Screen(yes))
    joins = let_in_again(admission, True)
    return joins, admission.journal


def let_in(account: Sshd, key: Path) -> None:
    """Have its owner let our key in."""
    account.authorized_keys.parent.mkdir(0o700)
    account.authorized_keys.write_text(public_key(account.server(key=key)))


def test_one_that_was_begun_is_let_in_and_begins_anew(site: Site, account: Sshd) -> None:
    """It may have been installed anew: what the others did for it counts no more."""
    begin(site, account)
    assert again(site, GIVEN) == (True, journal.read(site, "n"))
    assert account.authorized_keys.is_file()
    found = journal.read(site, "n")
    assert found is not None and found.done == ()


def test_one_that_still_lets_us_in_goes_on(site: Site, account: Sshd, key: Path) -> None:
    begin(site, account)
    let_in(account, key)
    joins, found = again(site, GIVEN)
    assert (joins, found.done, account.attempts.count("password")) == (True, ("mesh",), 0)


def test_a_member_is_let_in_and_joins_again(site: Site, account: Sshd) -> None:
    """Not before somebody has agreed to the deploy."""
    told = "^nobody is there to confirm that its key is let in again; give -y$"
    with pytest.raises(Stopped, match=told):
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
        again(site, Terms())
    assert not account.authorized_keys.exists()


def test_with_dry_it_is_only_said(
    site: Site, account: Sshd, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(site, account)
    before = journal.read(site, "n")
    assert again(site, Terms(secret=Secret(PASSWORD), dry=True))[0]
    assert journal.read(site, "n") == before and "password" not in account.attempts
    said = capsys.readouterr()
    assert "by the password it would be let in again" in said.err
    assert "done before: pre-flight, entry; would be done now: contact, mesh, " in said.out


def test_with_dry_the_stages_are_told(
    site: Site, account: Sshd, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(site, account)
    let_in(account, key)
    assert again(site, Terms(dry=True))[0]
    assert capsys.readouterr().out == (
        f"{site.file} has it already; done before: contact, pre-flight, entry, mesh; would be done "
        "now: deploy, report, verify\n"
    )


def test_another_host_key_gets_no_password(
    site: Site, account: Sshd, capsys: pytest.CaptureFixture[str]
) -> None:
    """A member is left to the report, which tells both; one that was begun stops."""
    known = account.server().known_hosts
    other = known.read_text().replace("AAAAE2VjZHNh", "AAAAE2VjZHNi")
    known.write_text(other)
    assert not again(site, GIVEN)[0]
    assert capsys.readouterr().err.endswith("in?\n  it cannot be asked; the report tells why\n")
    begin(site, account)
    with pytest.raises(ContactError, match="has changed: pinned"):
        again(site, GIVEN)
    assert capsys.readouterr().err.endswith("still let this machine in?\n  it cannot be asked\n")
    assert "password" not in account.attempts and known.read_text() == other


def test_a_server_that_is_down_is_not_asked(site: Site, account: Sshd) -> None:
    text = site.text().replace(f"port: {account.port}", "port: 1")
    site.file.write_text(text)
    assert not again(site, GIVEN)[0]

"""Admission: in which order a server is believed, looked at and written down."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typing_extensions import Self

from gpu_node.deploy.console import UserConsole
from gpu_node.drift.report.formats import plain, printed
from gpu_node.drift.report.model import Report
from gpu_node.inventories.errors import Unconfirmed
from gpu_node.inventories.interrupt import handled
from gpu_node.inventories.yaml import edit as editing
from gpu_node.inventories.yaml.edit import EditError
from gpu_node.onboarding import admission, forecast, journal
from gpu_node.onboarding.admission import Admission, Options, Request
from gpu_node.onboarding.errors import ContactError, Refusal, Stopped
from gpu_node.onboarding.inventory_files import Site, site_of
from gpu_node.onboarding.removal import remove
from gpu_node.onboarding.trust import host_keys as contact
from gpu_node.onboarding.trust.password import Secret
from tests.drift import reports, states

CLUSTER = """\
cluster: c
defaults: {ssh: {user: root, key: key, known_hosts: known_hosts}}
groups:
  v100: {gpu: {model: V100, count: 2}}
  far: {gpu: {model: A100, count: 2}, ssh: {known_hosts: other, user: zhang, port: 2222}}
hosts:
  a100-01: {address: 192.0.2.10, group: v100}
"""
ENTRY = "  v100-02: {address: 192.0.2.12, group: v100}\n"
REQUEST = Request("v100-02", "192.0.2.12")
# Secure Boot wants a module that is signed, and this one is not.
UNSIGNED: dict[str, object] = {"driver": {"secure_boot": {"state": "on", "enrolled": None}}}


class Session:
    """A session of a user who may become root, or not."""

    refusal = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def sudo_refusal(self) -> str:
        return self.refusal


class Answers:
    """Two V100, and what else the pre-flight is to say."""

    gpus: tuple[str, ...] = ("0x1db6", "0x1db6")
    interface = "eno1"
    name = "v100-02"
    found: dict[str, object] | None = None

    def report(self, *_: object) -> Report:
        return reports.report({self.name: states.seen(self.found)})


class World:
    """The server and the site: `calls` are what was done, in turn."""

    def __init__(self, site: Site) -> None:
        self.site, self.calls = site, list[str]()
        self.session, self.looked = Session(), Answers()
        self.asked: list[str | None] = []
        self.meanwhile: Callable[[], object] = lambda: None

    def look(self, _: object, inventory: str | None, *more: object) -> Answers:
        self.calls.append("look")
        self.asked.append(inventory)
        self.meanwhile()
        return self.looked

    def noted(self, name: str, result: Any = True) -> Callable[..., Any]:
        """Return what notes that it was called."""

        def call(*_: object) -> Any:
            self.calls.append(name)
            return result

        return call


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A server that lets us in and may be a member."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("key", "known_hosts", "other", "site.py"):
        (tmp_path / name).write_text("")
    (tmp_path / "site.yml").write_text(CLUSTER)
    world = World(site_of(str(tmp_path / "site.yml")))
    monkeypatch.setattr(contact, "offered", lambda _: [])
    monkeypatch.setattr(contact, "choose", lambda *_: "ssh-ed25519 A")
    monkeypatch.setattr(contact, "pin", world.noted("pin"))
    monkeypatch.setattr(admission, "open_session", lambda *_: world.session)
    monkeypatch.setattr(admission, "public_key", lambda _: "ssh-ed25519 B")
    monkeypatch.setattr(admission, "install_key", world.noted("key"))
    monkeypatch.setattr(admission, "prove_key", world.noted("prove"))
    monkeypatch.setattr(admission, "refuse_passwords", world.noted("passwords"))
    monkeypatch.setattr(admission, "look", world.look)
    return world


def admit(world: World, request: Request = REQUEST, options: Options | None = None) -> Admission:
    found = Admission(world.site, request, options or Options(), UserConsole(yes=True))
    found.admit()
    return found


def test_it_is_believed_let_in_looked_at_and_written(world: World) -> None:
    admit(world)
    assert world.calls == ["pin", "key", "prove", "look"]
    assert world.site.text() == CLUSTER + ENTRY
    assert journal.read(world.site, "v100-02") is not None


def test_a_typed_password_is_asked_for_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dry run installs no key, and logs in twice by what was typed first."""
    left = ["typed"]
    used: list[str] = []

    def log_in(_: object, host_key: str, secret: Any) -> Session:
        known = secret if isinstance(secret, Secret) else secret()
        used.append(known.reveal())
        return world.session

    monkeypatch.setattr(admission, "open_session", log_in)
    monkeypatch.setattr(admission, "typed", lambda login: lambda: Secret(left.pop(0)))
    monkeypatch.setattr(admission, "forecast", lambda *_: (world.looked.report(), []))
    admit(world, options=Options(dry=True))
    assert (used, left) == (["typed", "typed"], [])


@pytest.mark.parametrize("hosts", ["hosts: {}\n", "hosts:\n"])
def test_the_first_of_a_new_cluster_file(world: World, hosts: str) -> None:
    """Its inventory would be refused as one without hosts: no node of it is asked."""
    head = CLUSTER[: CLUSTER.index("hosts:\n")]
    world.site.file.write_text(head + hosts)
    admit(world)
    assert world.asked == [None]
    assert world.site.text() == (
        f"{head}hosts:\n  v100-02:\n    address: 192.0.2.12\n    group: v100\n"
    )


PIN = "192.0.2.12 ssh-ed25519 A\n"


@pytest.mark.parametrize("before", ["", PIN, PIN.replace("192.0.2.12", "v100-02")])
def test_it_is_noted_what_was_pinned(
    world: World, before: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was pinned before is not its own; what it wrote once stays its own, asked anew too."""
    known = world.site.file.with_name("known_hosts")
    known.write_text(before)
    monkeypatch.setattr(contact, "pin", lambda *_: known.write_text(before.replace(PIN, "") + PIN))
    admit(world)
    world.site.file.write_text(CLUSTER)
    for request in (REQUEST, Request("v100-02", "192.0.2.12", group="v100")):
        admit(world, request)
        world.site.file.write_text(CLUSTER)
        found = journal.read(world.site, "v100-02")
        assert found is not None
        assert found.pinned == (() if before == PIN else ("192.0.2.12",))


class Killed(BaseException):
    """Ends a run as kill -9 does: no handler of the product expects it."""


PINS = contact.pin


@pytest.mark.parametrize("wrote", [False, True])
@pytest.mark.parametrize("before", ["", "v100-02 ssh-ed25519 A\n", "# a line of the user"])
def test_killed_while_it_pins(
    world: World, before: str, wrote: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Removal takes back the pinned lines, and accepts that there are none yet."""
    known = world.site.file.with_name("known_hosts")
    known.write_text(before)

    def pin(*arguments: Any) -> None:
        if wrote:
            PINS(*arguments)
        raise Killed

    monkeypatch.setattr(contact, "pin", pin)
    with pytest.raises(Killed):
        admit(world)
    assert ("192.0.2.12 ssh-ed25519 A" in known.read_text()) is wrote
    remove(world.site, "v100-02", UserConsole(yes=True), lambda inventory: {})
    assert known.read_text() == before
    assert journal.read(world.site, "v100-02") is None


def test_a_look_leaves_nothing_behind(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state = states.state({"shm": {"usage": {"size": 67108864}}})
    foresee = forecast.foreseen
    monkeypatch.setattr(
        admission, "forecast", lambda _, cluster, name: foresee(state, cluster, name)
    )
    admit(world, options=Options(dry=True))
    assert "shm.too-small  v100-02" in capsys.readouterr().out
    assert world.calls == ["look"] and world.site.text() == CLUSTER
    assert journal.read(world.site, "v100-02") is None


EARLY = {
    "hosts in braces": (
        CLUSTER.replace("hosts:\n  a100-01: {", "hosts: {a100-01: {").rstrip() + "}\n",
        REQUEST,
        r"site\.yml:6: found hosts in one",
    ),
    "a key that has a line of its own": (
        CLUSTER.replace("  a100-01: {", "  ? a100-01\n  : {"),
        REQUEST,
        r"site\.yml:\d+: found .*; next: add manually, under hosts: "
        r"v100-02: \{address: 192\.0\.2\.12, group: GROUP\}, "
        r"where GROUP is the one for its GPUs: v100, far$",
    ),
    "an anchor in the way": (
        CLUSTER.replace("hosts:\n", "hosts: &h {}\n").partition("  a100-01")[0],
        REQUEST,
        r"site\.yml:6: found hosts in one",
    ),
    "no such group": (
        CLUSTER,
        Request("v100-02", "192.0.2.12", group="v10"),
        r"--group: found 'v10' \(no such group, did you mean v100\?\); allowed: v100, far",
    ),
    "a group whose entry would be none": (
        CLUSTER.replace("far: {", "far: {toolchain: {cmake: {version: '3.25.2'}}, "),
        Request("v100-02", "192.0.2.12", group="far"),
        r"toolchain\.cmake\.url: found nothing \(host v100-02 needs it\)",
    ),
    "a user that the file does not take": (
        CLUSTER,
        Request("v100-02", "192.0.2.12", user="pc$", group="v100"),
        r"site\.yml:8: hosts\.v100-02\.ssh\.user: found 'pc\$'",
    ),
}


@pytest.mark.parametrize(("file", "asked", "error"), EARLY.values(), ids=EARLY)
def test_refused_before_the_contact(world: World, file: str, asked: Request, error: str) -> None:
    """The server has not been asked for anything, and no key is on it."""
    world.site.file.write_text(file)
    with pytest.raises(Refusal, match=error):
        admit(world, asked)
    assert world.calls == [] and world.site.text() == file


def test_a_group_that_its_gpus_will_make(world: World) -> None:
    """Its name is that of a model: whether it is theirs, they tell."""
    world.looked.gpus = ("NVIDIA H100 80GB HBM3",)
    world.looked.name = "h100-01"
    admit(world, Request("h100-01", "192.0.2.12", group="h100"))
    assert "\n  h100: {gpu: {model: H100, count: 1}}\n" in world.site.text()


@pytest.mark.parametrize(
    ("pinned", "let_in", "dry", "ending"),
    [
        (
            True,
            True,
            False,
            "the inventory is unchanged, but its host key was pinned, and this "
            "machine's key was put into its authorized_keys",
        ),
        (True, False, False, "the inventory is unchanged, but its host key was pinned"),
        (False, False, False, "nothing was changed"),
        (True, True, True, "nothing was changed"),
    ],
)
def test_a_stop_names_what_was_changed(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    pinned: bool,
    let_in: bool,
    dry: bool,
    ending: str,
) -> None:
    """The contact is before the pre-flight: it has changed the server already."""
    monkeypatch.setattr(contact, "pin", world.noted("pin", pinned))
    monkeypatch.setattr(admission, "install_key", world.noted("key", let_in))
    world.looked.found = UNSIGNED
    shown: list[str] = []
    console = UserConsole()
    monkeypatch.setattr(
        console, "show", lambda each: shown.append(printed(each, plain(None, width=200)))
    )
    with pytest.raises(Stopped) as stopped:
        Admission(world.site, REQUEST, Options(dry=dry), console).admit()
    # The table above has the rest.
    what = "driver.secure-boot: 3.10.0-1160.el7.x86_64"
    assert str(stopped.value).startswith(f"found 1 stop ({what}); next: ")
    assert shown[-1].startswith("error  driver.secure-boot  v100-02\n  found   3.10.0-1160")
    assert shown[-1].splitlines()[-1] == f"findings: 1 error; {ending}"


def test_passwords_stay_until_it_is_a_member(world: World) -> None:
    """Otherwise a refused server would lock out users with a password."""
    world.looked.found = UNSIGNED
    with pytest.raises(Stopped, match=r"found 1 stop \(driver.secure-boot: "):
        admit(world, options=Options(disable_password=True))
    assert world.calls == ["pin", "key", "prove", "look"] and world.site.text() == CLUSTER


def test_without_a_terminal_the_entry_is_not_written(world: World) -> None:
    with pytest.raises(
        Unconfirmed, match=r"^found no terminal to confirm the entry; allowed: a terminal, or -y$"
    ):
        Admission(world.site, REQUEST, Options(), UserConsole()).admit()
    assert world.site.text() == CLUSTER


def test_an_entry_that_was_written_meanwhile_stays(world: World) -> None:
    """Another onboarding, or an editor: nothing is written over it."""
    theirs = f"{CLUSTER}  v100-09: {{address: 192.0.2.19, group: v100}}\n"
    world.meanwhile = lambda: world.site.file.write_text(theirs)
    with pytest.raises(EditError, match=r"site\.yml"):
        admit(world)
    assert world.site.text() == theirs


@pytest.mark.parametrize("is_written", [False, True])
def test_after_a_kill_the_same_command_continues(
    world: World, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    """The cluster file is unchanged or complete; the address need not be given again."""

    def killed(file: Path, old: str, new: str) -> None:
        if is_written:
            editing.write(file, old, new)
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(admission, "editing", SimpleNamespace(write=killed, diff=editing.diff))
        admit(world)
    assert world.site.text() == (CLUSTER + ENTRY if is_written else CLUSTER)
    again = Admission(world.site, Request("v100-02"), Options(), UserConsole(yes=True))
    assert (again.is_unfinished, again.is_entered) == (True, is_written)
    if is_written:
        assert again.let_in_again(True)
    else:
        again.admit()
    assert world.site.text() == CLUSTER + ENTRY


def test_ctrl_c_while_the_entry_is_written(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is complete, and the journal there, when Ctrl-C is raised."""

    def pressed(file: Path, old: str, new: str) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        editing.write(file, old, new)

    monkeypatch.setattr(admission, "editing", SimpleNamespace(write=pressed, diff=editing.diff))
    with handled(signal.default_int_handler, signal.SIGINT), pytest.raises(KeyboardInterrupt):
        admit(world)
    assert world.site.text() == CLUSTER + ENTRY
    assert journal.begun(world.site, "v100-02") is not None


def test_another_key_than_its_own_line_says(world: World) -> None:
    """Neither a pinned one nor one that is accepted for others will do."""
    request = Request("v100-02", "192.0.2.12", fingerprint="SHA256:A")
    with pytest.raises(
        ContactError, match=r"^found SHA256:A \(not one of the host keys offered at"
    ):
        admit(world, request, Options(accept=("SHA256:B",)))
    assert world.calls == [] and world.site.text() == CLUSTER


def test_who_cannot_become_root_changes_nothing(world: World) -> None:
    world.session.refusal = "zhang cannot become root without a password"
    with pytest.raises(Stopped, match="cannot become root"):
        admit(world)
    assert world.calls == [] and journal.read(world.site, "v100-02") is None


def test_a_group_may_have_its_own_way(world: World) -> None:
    """A given group is used; for one found by the GPUs the error asks for --group."""
    named = Request("v100-02", "192.0.2.12", group="far")
    server = Admission(world.site, named, Options(), UserConsole()).server
    assert (server.known_hosts.name, server.user, server.port) == ("other", "zhang", 2222)
    world.looked.gpus = ("0x20f1", "0x20f1")
    with pytest.raises(Stopped, match="give --group far"):
        admit(world)
    assert world.site.text() == CLUSTER


ALIAS = """\
Host al
  HostName 192.0.2.12
  User alice
  Port 2200
Host *
  User everyone
"""


@pytest.mark.parametrize(
    ("name", "defaults", "login"),
    [
        ("al", "user: root", ("alice", 2200)),
        ("al", "port: 99", ("alice", 2200)),
        ("192.0.2.12", "user: root", ("root", 22)),
        ("192.0.2.12", "port: 99", ("everyone", 99)),
    ],
)
def test_an_alias_of_ssh_config(
    world: World, controller: Path, name: str, defaults: str, login: tuple[str, int]
) -> None:
    """Its user and port are above the inventory's; what ssh_config has for all names is below."""
    (controller / ".ssh").mkdir()
    (controller / ".ssh" / "config").write_text(ALIAS)
    world.site.file.write_text(CLUSTER.replace("user: root", defaults, 1))
    request = Request("v100-02", name)
    server = Admission(world.site, request, Options(), UserConsole()).server
    assert (server.user, server.port) == login
    given = Request("v100-02", name, user="bob", port=23)
    server = Admission(world.site, given, Options(), UserConsole()).server
    assert (server.user, server.port) == ("bob", 23)


def test_an_alias_is_in_the_entry(world: World, controller: Path) -> None:
    """The next command of this machine logs in as the first one did."""
    (controller / ".ssh").mkdir()
    (controller / ".ssh" / "config").write_text(ALIAS)
    admit(world, Request("v100-02", "al"))
    data = world.site.cluster().data_of("v100-02")
    assert (data["ssh_user"], data["ssh_port"], data["ssh_hostname"]) == ("alice", 2200, "al")


def test_a_bad_ssh_config(world: World, controller: Path) -> None:
    """One line, before the server is contacted."""
    (controller / ".ssh").mkdir()
    (controller / ".ssh" / "config").write_text("Host al\n  Port nope\n")
    with pytest.raises(Stopped, match=r"Port: found 'nope' \(for al\)"):
        Admission(world.site, Request("v100-02", "al"), Options(), UserConsole())


def test_other_words_than_the_file_has_are_refused(world: World) -> None:
    admit(world)
    for option, request in (
        ("--group far", Request("v100-02", group="far")),
        ("--user zhang", Request("v100-02", user="zhang")),
        ("--port 99", Request("v100-02", port=99)),
    ):
        again = Admission(world.site, request, Options(), UserConsole())
        assert again.is_entered
        with pytest.raises(Stopped, match=f"{option.split()[0]}: .*change it there"):
            again.refuse_other_options()
    same = Request("v100-02", user="root")
    Admission(world.site, same, Options(), UserConsole()).refuse_other_options()


NOT_UTF_8 = {
    "name": Request("n\udcff", "192.0.2.5"),
    "address": Request("n", "192.0.2.5\udcff"),
    "user": Request("n", "192.0.2.5", user="zh\udcff"),
    "group": Request("n", "192.0.2.5", group="v100\x1b"),
}


@pytest.mark.parametrize("asked", NOT_UTF_8.values(), ids=NOT_UTF_8)
def test_words_that_are_not_utf_8(world: World, asked: Request) -> None:
    """Refused before anything is asked or written."""
    with pytest.raises(
        Stopped, match=r"found .*\\.* \(control characters, or bytes that are not UTF-8\)"
    ):
        Admission(world.site, asked, Options(), UserConsole())
    assert not list(journal.unfinished(world.site))

"""SSH among the nodes: keys, authorised keys, known hosts, name resolution, and logins."""

import base64
import binascii
import hashlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Literal

from pydantic import Field
from typing_extensions import override

from gpu_node.facts.probe import bounds, checked
from gpu_node.facts.probe.base import AreaFact, Parsers, ProbeFact, State, taken
from gpu_node.facts.probe.file_systems import Place, parse_places
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.managed_block import Block, parse_block
from gpu_node.facts.probe.peers import ALIKE
from gpu_node.facts.probe.protocol import Readings, Section, Unread, Unreadable, read
from gpu_node.facts.probe.readers import Columns, by_word, pairs
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.shm.state import Mode, parse_mode
from gpu_node.facts.ssh import mesh, scans
from gpu_node.facts.ssh.logins import (
    Login,
    is_left,
    lacking,
    parse_logins,
    parse_untried,
    place,
)
from gpu_node.facts.ssh.scans import Scan, parse_scans
from gpu_node.facts.ssh.settings import ClientSettings, ServerSettings, parse_client, parse_sshd


def sections(request: ProbeRequest) -> tuple[Section, ...]:
    """Return the sections to ask: the host keys alone if an inventory names nodes and no mesh.

    Where a server is to become a node, only its name and the host keys at its address are asked.
    """
    if request.joining is not None:
        named = mesh.names(ProbeRequest(nodes=(request.joining.server,)))
        return (named, scans.section(request.joining))
    return mesh.sections(request) if request.mesh or not request.nodes else (_KEYS_ALONE,)


# Two nodes of one image have the same. Each user can read these files, at the cost of one program.
_KEYS_ALONE = Section("ssh.host-keys", "cat /etc/ssh/ssh_host_*_key.pub 2>/dev/null || :")


class Account(State):
    """The training user: the home, who may write there, and the key for logins.

    A mode is None if the file is missing. `public` is type and key; `unusable` is why ssh-keygen
    cannot use the private key, empty if it can or if there is no key; `stray` is a public key
    without its private one. `places` has the file systems of home and these files.
    """

    user: str
    uid: int
    home: str
    modes: dict[Literal["home", "folder", "authorized", "key"], Mode]
    public: str | None
    unusable: str
    stray: str = ""
    places: dict[str, Place] = Field(default_factory=dict)


class Known(State):
    """Effective keys by what ssh searches for, as `type SHA256:...`, and our block of them."""

    keys: dict[str, tuple[str, ...]]
    block: Block


class Names(State):
    """What the names and addresses of the nodes resolve to here, in the resolver's order.

    `sources` are the addresses from which this node reaches them, each once. A name is missing, and
    one of the `silent`, if the resolver gave no answer; an address is then missing.
    """

    names: dict[str, tuple[str, ...]]
    addresses: dict[str, tuple[str, ...]]
    sources: tuple[str, ...]
    silent: tuple[str, ...] = ()


class HostsLine(State):
    """A line of /etc/hosts, not ours, that names nodes."""

    line: int
    text: str


_HOSTS_LINE = Columns(HostsLine, "line text...", " ")


class Managed(State):
    """Where cloud-init's manage_etc_hosts is set; value: true, template, localhost, false."""

    path: str
    line: int
    value: str

    @property
    def is_rewritten(self) -> bool:
        """Whether cloud-init writes the whole file at each boot, from a template."""
        return self.value.strip("\"'").lower() in ("true", "template", "yes", "on", "1")


class Hosts(State):
    """Our block of /etc/hosts, other lines about the same names, and what else writes the file.

    `is_mount`: it is mounted, as in a container: no other file can be renamed to it.
    """

    block: Block
    lines: tuple[HostsLine, ...]
    managed: Managed | None = None
    is_mount: bool = False


class Authorized(Block):
    """Our lines in authorized_keys, and the ed25519 keys of the `others`, with any options."""

    others: tuple[str, ...] = ()


class SshState(State):
    """Everything about SSH among the nodes that rules use.

    If the inventory wants no mesh, all but the host keys and the last field is None: `left_out`.
    """

    left_out: bool | None

    host_keys: tuple[str, ...] | None
    account: Account | None
    authorized: Authorized | None
    # The key that the sshd showed when this machine connected; None where another program asked.
    reached: str | None = None
    known_hosts: Known | None
    names: Names | None
    hosts: Hosts | None
    logins: tuple[Login, ...] | None
    # To how many of the nodes no login is tried: in a large cluster not every pair is.
    untried: int | None = None
    # What ssh does for each node, and sshd for logins from there; only root can ask sshd.
    client: ClientSettings | None = None
    server: ServerSettings | None = None
    # The output of sudo if the inventory allows it but the node refuses it; also without a mesh.
    sudo_refusal: str | None = None
    # The host keys seen at the addresses of others; read where a server is to become a node.
    scans: dict[str, Scan] | None = None


@lru_cache(maxsize=1 << 14)
def fingerprint(key: str) -> str:
    """Return `type SHA256:...` of a public key, as ssh-keygen shows it."""
    kind, blob = key.split()[:2]
    try:
        digest = hashlib.sha256(base64.b64decode(blob, validate=True)).digest()
    except binascii.Error as error:
        raise Unreadable(f"not a public key: {key[:60]!r} ({error})") from error
    return f"{kind} SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


def parse_host_keys(text: str) -> tuple[str, ...]:
    """Parse lines `type key comment` of the host's public keys."""
    return checked.public_keys(lines_of(text))


def parse_account(text: str) -> Account:
    """Parse lines of a word and its value; a mode is a line of `ls -ldn`."""
    rows, values = by_word(text), pairs(text)
    public, modes = values.get("public"), pairs(rows["mode"])
    return Account.model_validate(
        {
            "user": checked.user(values["user"]),
            "uid": checked.number(values["uid"]),
            "home": checked.path(values["home"]),
            "modes": {name: parse_mode(listed) for name, listed in modes.items()},
            "public": None if public is None else checked.public_key(public),
            "unusable": values.get("unusable", ""),
            "stray": values.get("stray", ""),
            "places": parse_places("\n".join(rows["place"])),
        }
    )


@lru_cache(maxsize=ALIKE)
def parse_known(text: str) -> Known:
    """Parse lines `known LOOKUP type key`, and those of the block."""
    rows = by_word(text)
    keys = by_word(rows["known"])
    lookups = {name: tuple(dict.fromkeys(map(fingerprint, each))) for name, each in keys.items()}
    return Known(keys=lookups, block=parse_block(rows["block"]))


@lru_cache(maxsize=1 << 13)
def _answer(line: str) -> tuple[str, str, tuple[str, ...] | None]:
    """Return a word, a node and its addresses; other nodes answer the same, which is kept once."""
    word, node, *addresses = line.split()
    return word, node, None if addresses == ["?"] else checked.addresses(addresses)


@lru_cache(maxsize=ALIKE)
def parse_authorized(text: str) -> Authorized:
    """Parse the lines of our block of authorized_keys, and `key TYPE KEY` of each other line."""
    lines = lines_of(text)
    others = [line.removeprefix("key ") for line in lines if line.startswith("key ")]
    block = parse_block(line for line in lines if not line.startswith("key "))
    return Authorized(**dict(block), others=tuple(others))


def parse_names(text: str) -> Names:
    """Parse lines of a word, a node and addresses; ? means no answer."""
    answers: dict[str, dict[str, tuple[str, ...]]] = {"name": {}, "address": {}, "source": {}}
    silent = []
    for line in lines_of(text):
        word, node, addresses = _answer(line)
        if addresses is not None:
            answers[word][node] = addresses
        elif word == "name":
            silent.append(node)
    sources = tuple(sorted({answer[0] for answer in answers["source"].values()}))
    checked.addresses(sources)
    for each in (answers["name"], answers["address"]):
        bounds.require(each)
    # In a large cluster these are most of a report's memory, and validation would copy them.
    return Names.model_construct(
        names=_shared(tuple(sorted(answers["name"].items()))),
        addresses=_shared(tuple(sorted(answers["address"].items()))),
        sources=sources,
        silent=tuple(silent),
    )


@lru_cache(maxsize=ALIKE)
def _shared(answers: tuple[tuple[str, tuple[str, ...]], ...]) -> dict[str, tuple[str, ...]]:
    """Return answers by their nodes: one dict for all nodes that have the same."""
    return dict(answers)


@lru_cache(maxsize=ALIKE)
def parse_hosts(text: str) -> Hosts:
    """Parse `line NUMBER text` of others, `managed NUMBER FILE<tab>value`, and the block."""
    rows = by_word(text)
    managed = [_managed(line) for line in rows["managed"]]
    return Hosts(
        block=parse_block(rows["block"]),
        lines=tuple(map(_HOSTS_LINE.row, rows["line"])),
        managed=managed[-1] if managed else None,
        is_mount="mount" in rows,
    )


def _managed(line: str) -> Managed:
    number, _, rest = line.partition(" ")
    path, _, value = rest.partition("\t")
    return Managed(path=path, line=int(number), value=value)


# A large cluster has many, and the text of one reason has a limit.
_MOST_LEFT = 20


def _add_unanswered(readings: Readings) -> None:
    """Add the logins without a result, and the addresses without an answer, to the unread.

    They are unknown, and do not count as right.
    """
    lines = _lines(readings, "ssh.logins")
    left = [line.split()[1:3] for line in lines if is_left(line)]
    if left:
        readings.unread.append(Unread("ssh.logins", f"no time left for {_logins(left)}"))
    asked = readings.about.get("ssh.logins", ())
    silent = lacking(asked, lines) if _is_read(readings, "ssh.logins") else []
    if silent:
        reason = f"no result of {_logins([each.split() for each in silent])}"
        readings.unread.append(Unread("ssh.logins", reason))
    rows = [line.split() for line in _lines(readings, "ssh.names")]
    unknown = sorted(row[1] for row in rows if row[:1] == ["address"] and row[2:] == ["?"])
    if unknown:
        about = _some([f"the address of {node}" for node in unknown])
        reason = f"the resolver gave no answer about {about}"
        readings.unread.append(Unread("ssh.names", reason))


def _logins(tried: Iterable[Sequence[str]]) -> str:
    places = sorted((place(node, how), f"{node} by {how}") for node, how in tried)
    return _some([login for _, login in places])


def _some(texts: Sequence[str]) -> str:
    """Return the first of some texts, with the number of the others."""
    more = f", and {len(texts) - _MOST_LEFT} more" if len(texts) > _MOST_LEFT else ""
    return f"{', '.join(texts[:_MOST_LEFT])}{more}"


def _lines(readings: Readings, section: str) -> list[str]:
    """Return the lines of a section; none if the whole section is unreadable."""
    return lines_of(readings.sections[section].text) if _is_read(readings, section) else []


def _is_read(readings: Readings, section: str) -> bool:
    reading = readings.sections[section]
    return not reading.problem and not reading.rc


PARSERS: Parsers = {
    "ssh.known": ("known_hosts client", lambda text: (parse_known(text), parse_client(text))),
    "ssh.logins": ("logins untried", lambda text: (parse_logins(text), parse_untried(text))),
    "ssh.host-keys": ("host_keys", parse_host_keys),
    "ssh.account": ("account", parse_account),
    "ssh.authorized": ("authorized", parse_authorized),
    "ssh.names": ("names", parse_names),
    "ssh.hosts": ("hosts", parse_hosts),
    "ssh.sshd": ("server", parse_sshd),
    "ssh.scans": ("scans", parse_scans),
}


def parse(readings: Readings) -> SshState:
    """Return the area's state from the probe's answers; only what was asked can be unread."""
    left_out = "ssh.account" not in readings.sections
    if not left_out:
        _add_unanswered(readings)
    own = {"left_out": left_out, "sudo_refusal": readings.refusal}
    unasked = dict.fromkeys(SshState.model_fields)
    return SshState.model_validate({**unasked, **taken(readings, PARSERS), **own})


class SshMesh(AreaFact):
    """Returns `SshState` as a dict: {"host_keys": ["ssh-ed25519 ..."], "account": {...}, ...}."""

    sections_for = staticmethod(sections)
    state = SshState
    parse = staticmethod(parse)


class OfUser(ProbeFact):
    """Base of the facts that ask one section about a user; `section` is its name."""

    section: ClassVar[str]

    @override
    def command(
        self, environments: Sequence[str] | str = (), deep: bool = False, user: str = ""
    ) -> str:
        return self.script_for(ProbeRequest(user=user))

    @override
    def sections_for(self, request: ProbeRequest) -> Sequence[Section]:
        return [section for section in mesh.sections(request) if section.name == self.section]


class TrainingAccount(OfUser):
    """Returns `Account` of a user as a dict, {"user": "train", "public": "ssh-ed25519 ...", ...}.

    An empty dict means that there was no answer.
    """

    section = "ssh.account"

    @override
    def parsed(self, output: list[str]) -> dict[str, Any]:
        account = read(output, self.asked).take(self.section, parse_account)
        return account.model_dump(mode="json") if account is not None else {}

"""A new inventory: nodes by name and address, their host keys pinned, what was found suggested."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml
from paramiko import PKey

from gpu_node.deploy.console import UserConsole
from gpu_node.drift.engine.shown_facts import value
from gpu_node.drift.host.machine import is_machine
from gpu_node.drift.limits.rules import proposed_files
from gpu_node.drift.ranges import gathered, ranges
from gpu_node.drift.shm.rules import proposed_size
from gpu_node.drift.tables import short_model
from gpu_node.facts.node import NodeState
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.protocol import Section
from gpu_node.facts.ssh.state import fingerprint
from gpu_node.inventories import atomic_write
from gpu_node.inventories.connection.known_hosts import SSH_PORT
from gpu_node.inventories.connection.ssh_config import BadConfig, settings
from gpu_node.inventories.errors import InventoryError, as_found, dotted, reason, shown, worded
from gpu_node.inventories.escape import visible
from gpu_node.inventories.fields.addresses import is_address, login_of, with_port
from gpu_node.inventories.fields.sizes import format_size
from gpu_node.inventories.regular_file import content
from gpu_node.inventories.schema import load, one_spelling
from gpu_node.inventories.servers_csv import wrong
from gpu_node.inventories.wanted import NodeWanted
from gpu_node.onboarding.errors import ContactError, Stopped
from gpu_node.onboarding.trust.host_keys import (
    ON_ITS_CONSOLE,
    Server,
    accepted,
    as_option,
    by_server,
    choose,
    offered,
    pin,
    pinned,
)

KNOWN_HOSTS = "known_hosts"
_USER = "root"
USERS_KNOWN_HOSTS = "~/.ssh/known_hosts"
# First contacts at the same time.
_PARALLEL = 20
_EXISTS = worded(
    "a file that exists", "", "another folder", "correct that file; gpu-node onboard adds a node"
)
_ADVICE = "  # Found, or advised. Remove the # before what all should have, one line a key:"
_ADVISED = re.compile(r"  # (driver|network|shm|limits|nccl): ")
_WORD = "NAME=ADDRESS, or NAME=ADDRESS:PORT"
# Of some nodes that do not answer, beside others that do.
_WITHOUT_IT = (
    "nothing was written; without a node that is down, name the others alone, and add it later "
    "with gpu-node onboard"
)
_BEGIN = "cluster: site\n\ndefaults:"
_INVENTORY = '''\
"""The nodes of this cluster for pyinfra, from site.yml beside this file."""

from gpu_node.inventories.groups import groups_of

globals().update(groups_of(__file__))
'''
_SECONDS = 20
_UNSET = NodeWanted.from_data({})
_MOST_ENVIRONMENTS = 20
# Where Python environments usually are; a torch that is not installed by pip is not found.
ENVIRONMENTS = Section(
    "init.environments",
    f"""for each in "$HOME"/*conda*/envs/* "$HOME"/mamba*/envs/* "$HOME"/.conda/envs/* \\
  "$HOME"/*conda* "$HOME"/.venv "$HOME"/venv* "$HOME"/*/.venv "$HOME"/*/venv \\
  /opt/*conda*/envs/* /opt/*conda* /opt/venv* /opt/*/venv; do
  for file in "$each"/lib/python3*/site-packages/torch/version.py; do
    [ ! -f "$file" ] || printf '%s\\n' "$each"
  done
done | head -n {_MOST_ENVIRONMENTS}
exit 0""",
    _SECONDS,
)
# What a node sends is written into a file: only plain words are.
_PATH = re.compile(r"/[A-Za-z0-9][A-Za-z0-9._/+-]{0,199}")
_VERSION = re.compile(r"[0-9]{3}\.[0-9]{2,3}(\.[0-9]{1,3})?")
_INTERFACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,14}")


@dataclass(frozen=True)
class NewNode:
    """A node as the user names it."""

    name: str
    address: str
    # Of its sshd, where the user gives one for it alone.
    port: int | None = None


@dataclass(frozen=True)
class Access:
    """How this machine logs in to all of them, and the fingerprints that the user gave.

    Without a user or a port, ssh_config decides for each node; where it has none: root, and 22.
    """

    user: str | None = None
    port: int | None = None
    key: Path | None = None
    sudo: bool = False
    accept: tuple[str, ...] = ()
    # What is known of them already.
    known: Path = Path(USERS_KNOWN_HOSTS)


def nodes_of(words: Iterable[str]) -> list[NewNode]:
    """Return the nodes that NAME=ADDRESS[:PORT] words name; Stopped lists all that is wrong."""
    nodes: list[NewNode] = []
    problems = []
    spelled: dict[str, str] = {}
    for word in _joined(words):
        name, _, place = word.partition("=")
        if slip := _slip(word):
            problems.append(worded(shown(word), slip[0], _WORD, f"write {visible(slip[1])}"))
            continue
        login = login_of(place)
        meant = _words_of(login) if len(login) > 1 else [place]
        if meant != [place]:
            then = f"write {name}={' '.join(meant)}, each a word"
            if "user" in login:
                then += ": one user for all; write another at its host in site.yml, then --again"
            problems.append(worded(shown(word), "", _WORD, then))
            continue
        try:
            address, port = with_port(place)
        except ValueError as error:
            why, allowed = f"{shown(error)} is not a port", f"{_WORD} with a port of 1 to 65535"
            plain = word.removesuffix(f":{error}")
            then = f"write {plain}:2222, with its port, or {plain} for that of ssh_config, or 22"
            problems.append(worded(shown(word), why, allowed, then))
            continue
        problems += [f"{shown(word)}: {each.path[0]}: {each}" for each in wrong(name, address)]
        if name in [node.name for node in nodes]:
            then = f"write another name for {place}"
            problems.append(worded(f"{shown(name)} twice", "", "one name a node", then))
        elif (other := spelled.setdefault(one_spelling(address), name)) != name:
            why = f"for {dotted([other])} and {dotted([name])}"
            then = f"write the address by which the other nodes reach {dotted([name])}"
            problems.append(worded(shown(address), why, "one a node", then))
        nodes.append(NewNode(name, address, port))
    if problems:
        raise Stopped("\n".join(problems))
    return nodes


def _joined(words: Iterable[str]) -> list[str]:
    """Return words in which an = that is one, or a :, is joined with those around it."""
    found: list[str] = []
    for word in words:
        if found and (word == "=" or found[-1].endswith((" =", ":"))):
            found[-1] += f" {word}"
        else:
            found.append(word)
    return found


def _slip(word: str) -> tuple[str, str] | None:
    """Return what a word lacks or has too much, and what to write; None where it is whole."""
    name, equals, place = word.partition("=")
    if " = " in word:
        return "blanks around =", word.replace(" = ", "=")
    key, colon, behind = word.partition(":")
    if "," in place and all("=" in each for each in word.strip(",").split(",")):
        return "a comma between nodes", word.strip(",").replace(",", " ")
    if not equals and is_address(behind.strip()) and not is_address(word):
        return "no =", f"{key}={behind.strip()}"
    if colon and not equals and key in NodeWanted.model_fields:
        return "a key of the cluster file", "it into site.yml, once that is there"
    if not equals and "@" in word and (login := login_of(word)):
        return "no name", f"a100-01={' '.join(_words_of(login))}"
    if not name or (not equals and (is_address(word) or is_address(word.partition(":")[0]))):
        return "no name", f"a100-01={place or word}"
    if not place:
        return "no address", f"{name}=10.0.0.4, with its address"
    return None


def _words_of(login: Mapping[str, str | int]) -> list[str]:
    """Return the words of a command line that a way to log in is: ADDRESS:PORT, and options."""
    address = str(login["address"])
    at = f"[{address}]" if ":" in address else address
    place = f"{at}:{login['port']}" if "port" in login else at
    return [place, *([f"--user {login['user']}"] if "user" in login else [])]


class NewSite:
    """The folder of a new inventory: site.yml, site.py and known_hosts."""

    def __init__(
        self, folder: Path, access: Access, console: UserConsole, again: bool = False
    ) -> None:
        self.folder, self.access, self.console = folder, access, console
        self.file, self.inventory = folder / "site.yml", folder / "site.py"
        for each in (self.file, self.inventory):
            if again and not each.is_file():
                then = "gpu-node init DIR NAME=ADDRESS..."
                problem = worded(f"no {each.name}", "", "the folder of an inventory", then)
                raise Stopped(f"{visible(str(folder))}: {problem}")
            if not again and os.path.lexists(each) and not self._is_begun():
                raise Stopped(f"{visible(str(each))}: {_EXISTS}")
        if folder.exists() and not folder.is_dir():
            raise Stopped(f"{visible(str(folder))}: {worded('a file', '', 'a folder')}")
        try:
            atomic_write.check_folder(folder)
        except OSError as error:
            why, allowed = (
                f"cannot write into {visible(str(folder))}",
                "a folder that takes files",
            )
            then = "another place, such as cluster"
            raise Stopped(f"DIR: {worded(reason(error), why, allowed, then)}") from None

    def _is_begun(self) -> bool:
        """Whether both files are as a run writes them before it asks the nodes."""
        try:
            if content(self.inventory).decode("utf-8") != _INVENTORY:
                return False
            text = self._written() if os.path.lexists(self.file) else _BEGIN
            return text.startswith(_BEGIN) and "#" not in text
        except (OSError, UnicodeDecodeError):
            return False

    def _written(self) -> str:
        return content(self.file).decode("utf-8")

    def create(self, nodes: Sequence[NewNode]) -> None:
        """Confirm all host keys, pin them, and write the inventory.

        Raises Stopped with nothing written where a key is not confirmed or a node does not answer,
        or if the folder has another inventory. One that an interrupted run has written is written
        again.
        """
        _check_ssh_config(nodes)
        if self.file.exists() and self._written() != self.text(nodes):
            raise Stopped(f"{visible(str(self.file))}: {_EXISTS}")
        self._check(nodes)
        servers = [self._server(node) for node in nodes]
        keys = self._confirmed(servers, *by_server(self.access.accept, [n.name for n in nodes]))
        is_new = not self.folder.exists()
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            for server, (key, offers) in keys.items():
                pin(server, key, offers)
            text = self.text(nodes)
            load(self.file, text)
        except (InventoryError, ContactError):
            (self.folder / KNOWN_HOSTS).unlink(missing_ok=True)
            if is_new:
                self.folder.rmdir()
            raise
        atomic_write.replace(self.inventory, _INVENTORY.encode(), 0o644)
        atomic_write.replace(self.file, text.encode(), 0o644)

    def _check(self, nodes: Sequence[NewNode]) -> None:
        """Raise Stopped where the cluster file would not be valid, before any node is contacted."""
        with TemporaryDirectory(prefix="gpu-node-") as folder:
            (Path(folder) / KNOWN_HOSTS).touch()
            try:
                load(Path(folder) / self.file.name, self.text(nodes))
            except InventoryError as error:
                lines = [re.sub(r"^[^:]*:\d+: ", "", line) for line in error.lines]
                raise Stopped("\n".join(lines)) from None

    def entered(self) -> list[NewNode]:
        """Return the nodes of the cluster file; raises InventoryError."""
        hosts = load(self.file).hosts
        return [NewNode(name, str(host.data["ssh_hostname"])) for name, host in hosts.items()]

    def suggest(
        self, nodes: Sequence[NewNode], states: Mapping[str, NodeState], places: Mapping[str, str]
    ) -> None:
        """Write what was found on the nodes into the cluster file, as comments."""
        text = advised(self._written(), nodes, states, places)
        load(self.file, text)
        atomic_write.replace(self.file, text.encode(), 0o644)

    def text(self, nodes: Sequence[NewNode]) -> str:
        """Return the cluster file, before the nodes are asked."""
        access = self.access
        logins = {node.name: self._login(node) for node in nodes}
        user = access.user or (_USER if any(not user for user, _ in logins.values()) else None)
        key = str(access.key) if access.key else None
        ssh = _set(user=user, port=access.port, key=key, sudo=access.sudo, known_hosts=KNOWN_HOSTS)
        hosts = {}
        for node in nodes:
            own_user, own_port = logins[node.name]
            hosts[node.name] = _set(address=node.address, user=own_user, port=own_port)
        return f"{_BEGIN}\n  ssh: {_yaml(ssh)}\n{_yaml({'hosts': hosts}, braces=False)}"

    def _login(self, node: NewNode) -> tuple[str | None, int | None]:
        """Return the user and the port of a node alone: of its word, or else of ssh_config.

        None where the command gives those of all nodes.
        """
        found = settings(node.address)
        user = found.get("user") if self.access.user is None else None
        port = int(found["port"]) if self.access.port is None and "port" in found else None
        if node.port and node.port != self.access.port:
            return user, node.port
        return user, None if port == SSH_PORT else port

    def _server(self, node: NewNode) -> Server:
        access = self.access
        user, port = self._login(node)
        return Server(
            node.name,
            node.address,
            port or access.port or SSH_PORT,
            access.user or user or _USER,
            self.folder / KNOWN_HOSTS,
            access.key,
        )

    def _confirmed(
        self, servers: Sequence[Server], own: Mapping[str, str], given: Sequence[str]
    ) -> dict[Server, tuple[str, list[PKey]]]:
        """Return the key that each server is to have, `kind key`, and those that it offers.

        `own` and `given` are the fingerprints of `by_server`.
        """
        with ThreadPoolExecutor(_PARALLEL) as pool:
            looked = list(pool.map(_offers, servers))
        if problems := [
            f"{each.name}: {as_found(offers)}" for each, offers in looked if isinstance(offers, str)
        ]:
            if len(problems) < len(looked):
                problems.append(_WITHOUT_IT)
            raise Stopped("\n".join(problems))
        chosen: dict[Server, tuple[str, list[PKey]]] = {}
        unknown: list[Server] = []
        for server, offers in looked:
            assert isinstance(offers, list)
            key, is_known = self._key(server, offers, own.get(server.name), given)
            chosen[server] = (key, offers)
            if not is_known:
                unknown.append(server)
        self._show(chosen, unknown)
        if unknown:
            self._ask(chosen, unknown)
        return chosen

    def _key(
        self, server: Server, offers: list[PKey], own: str | None, given: Sequence[str]
    ) -> tuple[str, bool]:
        """Return the key of a server, and whether the user has confirmed it before.

        ContactError: it is another one than the user knows, or it is revoked.
        """
        known = replace(server, known_hosts=self.access.known.expanduser())
        try:
            accept = accepted(known, offers, own, given)
            if accept is not None:
                return choose(known, offers, accept, None), True
            is_known = bool(pinned(known))
            # A key that is revoked is refused here, too.
            return choose(known, offers, None, None if is_known else lambda _: True), is_known
        except ContactError as error:
            words, _, _ = str(error).partition(", or for a node of the inventory")
            raise ContactError(f"{server.name}: {as_found(words)}") from None

    def _show(
        self, chosen: Mapping[Server, tuple[str, list[PKey]]], unknown: Sequence[Server]
    ) -> None:
        width = max(len(server.name) for server in chosen)
        at = max(len(server.at) for server in chosen)
        for server, (key, _) in chosen.items():
            state = "new" if server in unknown else "known"
            line = f"{server.name:<{width}}  {server.at:<{at}}  {fingerprint(key)}  {state}"
            self.console.say(line)
        for key, same in _by_value({server.name: key for server, (key, _) in chosen.items()}):
            if len(same) > 1 and key:
                who = ranges(same)
                self.console.say(f"{who} have one host key: one machine, or a cloned image")

    def _ask(
        self, chosen: Mapping[Server, tuple[str, list[PKey]]], unknown: Sequence[Server]
    ) -> None:
        if self.console.asks is None:
            options = [as_option(server, chosen[server][0]) for server in unknown]
            found = f"no terminal to confirm the host keys of {ranges(s.name for s in unknown)}"
            then = (
                f"compare them with what {ON_ITS_CONSOLE} shows on each node's console, then give "
                f"{' '.join(options)}"
            )
            raise Stopped(worded(found, "nothing was written", "", then))
        which = "this key" if len(unknown) == 1 else f"these {len(unknown)} new keys"
        self.console.say(f"Compare with what each node's own console shows: {ON_ITS_CONSOLE}")
        if not self.console.asks(f"Trust {which}?"):
            raise Stopped(worded("no confirmation", "nothing was written", "y"))


def _check_ssh_config(nodes: Iterable[NewNode]) -> None:
    """Raise Stopped where pyinfra cannot use ssh_config for a node, before any is contacted."""
    problems = []
    for node in nodes:
        try:
            settings(node.address)
        except BadConfig as error:
            problems.append(str(error))
    if problems:
        raise Stopped("\n".join(dict.fromkeys(problems)))


def _offers(server: Server) -> tuple[Server, list[PKey] | str]:
    try:
        return server, offered(server)
    except ContactError as error:
        return server, str(error)


def advised(
    text: str,
    nodes: Sequence[NewNode],
    states: Mapping[str, NodeState],
    places: Mapping[str, str],
) -> str:
    """Return a cluster file with what was found as comments, in place of those of an earlier run.

    Every other line stays, and a key that the file sets is not suggested. `places` has the output
    of ENVIRONMENTS of each node.
    """
    gpus = {name: f"    # gpu: {gpu}" for name, each in states.items() if (gpu := _gpu(each))}
    suggested = _defaults(nodes, states, places)
    keys = {line.partition(":")[0] for line in lines_of(text)}
    comments = [f"  # {each}" for each in suggested if f"  {each.partition(':')[0]}" not in keys]
    given = text.split("\n")
    place = next((line for line in given if line.startswith("  ssh: {")), "defaults:")
    lines: list[str] = []
    name, is_below = "", False
    for line in given:
        host = re.fullmatch(r"  ([\"']?)(.+)\1:", line)
        name = host[2] if host else name
        is_below = line == _ADVICE or (is_below and line.startswith("  "))
        is_advice = is_below and (line == _ADVICE or _ADVISED.match(line))
        if is_advice or (name in gpus and line.startswith("    # gpu: {")):
            continue
        lines.append(line)
        if line == place and comments:
            lines += [_ADVICE, *comments]
        elif line.startswith("    address:") and name in gpus:
            lines.append(gpus[name])
    return "\n".join(lines)


def _defaults(
    nodes: Sequence[NewNode], states: Mapping[str, NodeState], places: Mapping[str, str]
) -> Iterator[str]:
    """Yield suggestions for all nodes, with the nodes that each was found on."""
    names = [node.name for node in nodes]
    for version, on in _by_value({name: _driver(state) for name, state in states.items()}):
        yield f'driver: {{version: "{version}"}}  # {ranges(on, names)}'
    addresses = {node.name: node.address for node in nodes}
    links = {name: _interface(state, addresses[name]) for name, state in states.items()}
    if listed := [f"{link} on {ranges(on, names)}" for link, on in _by_value(links)]:
        yield f"network: auto  # {', '.join(listed)}"
    yield from _minimums(names, states)
    for place, on in _by_value({name: environments(text) for name, text in places.items()}):
        yield f"nccl: {{environments: [{place}]}}  # {ranges(on, names)}"


def _minimums(names: Sequence[str], states: Mapping[str, NodeState]) -> Iterator[str]:
    """Yield sizes and limits with which jobs start; what a node has more of, it keeps."""

    def on_nodes(values: Mapping[str, str]) -> str:
        return "; ".join(f"{value} on {ranges(on, names)}" for value, on in _by_value(values))

    sizes = {name: value("shm.size", state) or "" for name, state in states.items()}
    if listed := on_nodes(sizes):
        least = min(proposed_size(state, _UNSET) for state in states.values())
        yield f"shm: {{size: {format_size(least)}}}  # a minimum; found: {listed}"
    limits = {name: _limits(state) for name, state in states.items()}
    if listed := on_nodes(limits):
        files = min(proposed_files(state.limits) for state in states.values())
        yield f"limits: {{nofile: {files}, memlock: unlimited}}  # minimums; found: {listed}"


def _limits(state: NodeState) -> str:
    """Return the limits of a login, soft/hard."""
    known = {item: value(f"limits.{item}", state) for item in ("nofile", "memlock")}
    return ", ".join(f"{item} {found}" for item, found in known.items() if found)


def _by_value(values: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    """Return each value but the empty one, with the nodes that have it, the commonest first."""
    found = gathered((text, name) for name, text in values.items() if text)
    return sorted(found.items(), key=lambda each: -len(each[1]))


def _driver(state: NodeState) -> str:
    loaded = state.driver.loaded.nvidia if state.driver.loaded else ""
    return loaded if _VERSION.fullmatch(loaded) else ""


def _interface(state: NodeState, address: str) -> str:
    for each in state.network.addresses or ():
        if each.address.partition("/")[0] == address and _INTERFACE.fullmatch(each.interface):
            return each.interface
    return ""


def environments(text: str) -> str:
    """Return the folders with a PyTorch in the output of ENVIRONMENTS, as the file has them."""
    found = [line for line in dict.fromkeys(lines_of(text)) if _PATH.fullmatch(line)]
    return ", ".join(found[:_MOST_ENVIRONMENTS])


def _gpu(state: NodeState) -> str:
    """Return a node's GPUs as the cluster file has them; empty where they are not of one model."""
    if state.driver.smi is None:
        return ""
    if state.driver.own_devices == () and not state.driver.smi.gpus and is_machine(state):
        return "none  # for a node that only launches jobs"
    models = [short_model(gpu.name) for gpu in state.driver.smi.gpus]
    if not models or None in models or len({*models}) > 1:
        return ""
    return f"{{model: {models[0]}, count: {len(models)}}}"


def _set(**values: object) -> dict[str, object]:
    """Return the values that are set."""
    return {key: value for key, value in values.items() if value}


def _yaml(data: Mapping[str, object], braces: bool = True) -> str:
    """Return data as YAML, each entry in one line."""
    wide = float("inf")
    return yaml.safe_dump(
        data, default_flow_style=braces, allow_unicode=True, sort_keys=False, width=wide
    )

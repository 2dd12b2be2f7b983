"""ProbeRequest: what the inventory names for the probe to read, besides the node itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpu_node.facts.probe.peers import SSH_PORT, Peer, peers_of
from gpu_node.facts.probe.words import FILE_NAME, is_file_name, is_host_name

# The value of `workspace_source` for the controller: no node has this name.
CONTROLLER = "controller"
# The key and the value with which every login is tried in a large cluster: --data mesh=all.
MESH, EVERY_LOGIN = "mesh", "all"
# The key with which a command gives a job.
JOB = "_job"
_PACKAGES = ("driver_packages_apt", "driver_packages_rpm")


@dataclass(frozen=True)
class Copied:
    """The workspace: its path on the node, its path on the source, the source, and the excludes."""

    path: str
    origin: str
    source: str
    excludes: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """Its paths on a node: each node may be the source."""
        return tuple(dict.fromkeys((self.path, self.origin)))


@dataclass(frozen=True)
class OwnCheck:
    """A command of `own_checks`: by root or the training user; `same` has who must agree on it."""

    name: str
    command: str
    root: bool = False
    same: str = ""


@dataclass(frozen=True)
class Joining:
    """What is asked where a server is to become a node, of itself and of the nodes about it.

    `server` is that server, `scanned` whose host keys are looked at, `pinned` those that are known
    by name. `folders` are to be filled on it, and `data` has the inventory's proxy.
    """

    server: Peer
    scanned: tuple[Peer, ...] = ()
    pinned: Mapping[str, Sequence[str]] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class JobAsked:
    """What is asked of a node about a job, whose working directory is `folder` (empty: the home).

    `files` are read, `paths` looked at, `programs` looked for, `names` looked up; those of the
    `hostfile` are names too. Raises ValueError for a text that can be no name.
    """

    folder: str = ""
    hostfile: str = ""
    files: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for each in (self.folder, self.hostfile, *self.files, *self.paths, *self.programs):
            if not is_file_name(each):
                raise ValueError(f"not the name of a file: {each[:60]!a}; allowed: {FILE_NAME}")
        for each in self.names:
            if not is_host_name(each):
                raise ValueError(f"not the name of a host: {each[:60]!a}")


@dataclass(frozen=True)
class ProbeRequest:
    """What to read from a node, besides the node itself.

    `environments` are the folders of Python environments; `deep` also reads whole libraries, which
    takes minutes. `nodes` are all nodes of the cluster, `address` is the address of this node.
    `port` that of its sshd. `mesh` asks what its logins to the others need, and with `logins` tries
    them: in a large cluster some of them, or with `every_login` each. `user` is the
    training user; empty: the SSH user. `trains_apart`: the training user is not the SSH user.
    `sudo`: the SSH user may become root; `asks`: by a password, which only root's part gets.
    `below` are the directories whose content is examined too, each with its mode.
    `variables` are the environment variables that the inventory sets. `packages` are the driver's
    packages, for apt and for rpm. `workspaces` are the directories that are copied beside
    `workspace`. `joining`: a server is to become a node. `job`: a job is to start. `own_checks` are
    the site's. `sysctl`, `modules` and `services` are the names that the inventory has a value for.
    """

    environments: Sequence[str] = ()
    deep: bool = False
    nodes: Sequence[Peer] = ()
    user: str = ""
    address: str = ""
    port: int = SSH_PORT
    mesh: bool = False
    logins: bool = True
    every_login: bool = False
    variables: Sequence[str] = ()
    sudo: bool = False
    asks: bool = False
    trains_apart: bool = False
    directories: Sequence[str] = ()
    below: Sequence[tuple[str, str]] = ()
    workspace: Copied | None = None
    workspaces: Sequence[Copied] = ()
    packages: Sequence[str] = ()
    joining: Joining | None = None
    job: JobAsked | None = None
    own_checks: Sequence[OwnCheck] = ()
    sysctl: Sequence[str] = ()
    modules: Sequence[str] = ()
    services: Sequence[str] = ()

    @property
    def copies(self) -> tuple[Copied, ...]:
        """Every directory that is copied."""
        return (*(() if self.workspace is None else (self.workspace,)), *self.workspaces)


def request_of(data: Mapping[str, Any], deep: bool = False) -> ProbeRequest:
    """Return the request from the inventory's data about a host."""
    return ProbeRequest(
        environments=listed(data.get("nccl_environments") or ()),
        deep=deep,
        nodes=peers_of(data),
        user=data.get("launcher_user") or data.get("ssh_user") or "",
        address=data.get("ssh_hostname") or "",
        port=data.get("ssh_port") or SSH_PORT,
        mesh=data.get("ssh_mesh") is True,
        every_login=data.get(MESH) == EVERY_LOGIN,
        variables=tuple(data.get("env") or ()),
        sudo=data.get("_sudo") is True,
        trains_apart=data.get("launcher_user") not in (None, "", data.get("ssh_user")),
        directories=tuple(each["path"] for each in data.get("directories") or ()),
        below=tuple(
            (each["path"], each["mode"])
            for each in data.get("directories") or ()
            if each.get("recursive") and each.get("mode")
        ),
        workspace=_copied(data),
        workspaces=tuple(
            Copied(
                path=each["path"],
                origin=each.get("from") or each["path"],
                source=each.get("source") or "",
                excludes=listed(each.get("exclude") or ()),
            )
            for each in data.get("workspaces") or ()
        ),
        packages=tuple(each for key in _PACKAGES for each in listed(data.get(key) or ())),
        job=data.get(JOB),
        own_checks=tuple(
            OwnCheck(each["name"], each["command"], each.get("root") is True, each.get("same", ""))
            for each in data.get("own_checks") or ()
        ),
        sysctl=tuple(data.get("sysctl") or ()),
        modules=tuple(data.get("modprobe") or ()),
        services=tuple(data.get("services") or ()),
    )


def _copied(data: Mapping[str, Any]) -> Copied | None:
    path = data.get("workspace_path")
    if not path:
        return None
    return Copied(
        path=path,
        origin=data.get("workspace_from") or path,
        source=data.get("workspace_source") or "",
        excludes=listed(data.get("workspace_exclude") or ()),
    )


def listed(words: Sequence[str] | str) -> tuple[str, ...]:
    """Return the words of a list, or of text with commas (from --data, or for a single folder)."""
    return tuple(words.split(",") if isinstance(words, str) else words)

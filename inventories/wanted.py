"""What a node should be: an area or item that is None is not managed."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    ModelWrapValidatorHandler,
    model_validator,
)
from typing_extensions import Self

from gpu_node.inventories.advice import advised, as_yaml, right_of
from gpu_node.inventories.checks.supply import SupplyWanted, unsigned_by_http
from gpu_node.inventories.errors import (
    InventoryError,
    KeyPath,
    Problem,
    at,
    dotted,
    nearest,
    quoted,
    shown,
)
from gpu_node.inventories.fields import kinds as fields
from gpu_node.inventories.fields import own, settings, switched, variables
from gpu_node.inventories.fields import paths as places
from gpu_node.inventories.keys import complaints, flat_key, leaf_paths, section, short_of
from gpu_node.inventories.model import Model
from gpu_node.inventories.other_names import login_key, of_no_key

# The model of a node whose GPUs, if it has some, are not for jobs.
NO_GPU = "none"
# As near as `shm_siz` is; `docker_version`, which another deploy may have, is not.
_NEAR = 0.88
_nearest = cache(nearest)
_OF_A_LOGIN = re.compile("ssh(?!d)|ansible_|_?(sudo|su|doas)(_|$)", re.IGNORECASE)


class GpuWanted(Model):
    SHORT = "model"

    model: fields.GpuModel = Field(
        title="the model of all GPUs of the node; none: a node on which no rank of a job runs"
    )
    count: fields.Count = Field(title="how many GPUs the node has")

    @model_validator(mode="wrap")
    @classmethod
    def _may_have_none(cls, value: Any, read: ModelWrapValidatorHandler[Self]) -> Self:
        """`gpu: none` needs no count: it has 0, whatever count a level above sets."""
        if at(value, ("model",)) != NO_GPU:
            return read(value)
        return read({**value, "count": 1}).model_copy(update={"count": 0})


class DriverPackagesWanted(Model):
    """What installs the driver where there is none, by the family of the package manager."""

    apt: fields.SystemPackages | None = Field(
        default=None,
        title="the packages that install the driver on a node with apt that has no driver",
    )
    rpm: fields.SystemPackages | None = Field(
        default=None,
        title="the packages that install the driver on a node with yum or dnf that has no driver",
    )


class DriverWanted(Model):
    SHORT = "version"

    version: fields.DriverVersion | None = Field(
        default=None, title="the version or branch of the NVIDIA driver"
    )
    persistence: fields.Switch | None = Field(
        default=None,
        title="whether the driver stays loaded while no process uses a GPU (persistence mode)",
    )
    packages: DriverPackagesWanted | None = None
    hold_kernel: fields.Switch | None = Field(
        default=None, title="keeps the newest kernel that has a driver module as the default kernel"
    )


class ShmWanted(Model):
    size: fields.Size = Field(title="the least size of /dev/shm, now and after a reboot")
    kill_orphans: fields.Switch | None = Field(
        default=None, title="ends trainers whose launcher has ended, if they hold files in /dev/shm"
    )
    remove_ipc: fields.Switch | None = Field(
        default=None,
        title="false: logind does not delete a user's files in /dev/shm at the last logout",
    )


class UlimitsWanted(Model):
    """The limits that docker gives to each container, soft and hard."""

    nofile: fields.Nofile | None = Field(
        default=None, title="how many files a process of a container may open"
    )
    memlock: fields.Memlock | None = Field(
        default=None, title="how much memory a process of a container may lock"
    )


class DockerWanted(Model):
    default_shm_size: fields.Size | None = Field(
        default=None,
        title="the size of /dev/shm in a container that names none, in /etc/docker/daemon.json",
    )
    default_ulimits: UlimitsWanted | None = None


class LimitsWanted(Model):
    nofile: fields.Nofile | None = Field(
        default=None, title="how many files a process of a login may open"
    )
    memlock: fields.Memlock | None = Field(
        default=None, title="how much memory a process of a login may lock"
    )
    stack: fields.Stack | None = Field(
        default=None, title="the stack of a login, where it would be unlimited"
    )
    nproc: fields.Nproc | None = Field(
        default=None, title="how many processes and threads a user may have"
    )


class CmakeWanted(Model):
    version: fields.Version = Field(title="the version of cmake")
    url: fields.Url = Field(title="the tarball of this version")
    sha256: fields.Sha256 = Field(title="the checksum of the tarball")
    fetch: fields.Fetch = Field(default="node", title="which machine downloads the tarball")


class ToolchainWanted(Model):
    cmake: CmakeWanted | None = None
    packages: fields.Pins | None = Field(
        default=None, title="versions of Python packages in the environments of nccl.environments"
    )


class RepositoryWanted(Model):
    url: fields.Url = Field(title="the URL of the package repository")
    apt: fields.Url | None = Field(
        default=None, title="the URL for nodes with apt; without it the same URL"
    )
    key: fields.RepositoryKey = Field(title="the public key that signs the packages")


class NcclWanted(Model):
    SHORT = "version"

    version: fields.NcclVersion = Field(
        default="match-torch",
        title="the NCCL version: the one that torch is built for, or a fixed one",
    )
    environments: fields.Environments | None = Field(
        default=None, title="the Python environments whose NCCL is compared and repaired"
    )
    copy_from: places.Node | None = Field(
        default=None, title="the node that a missing environment is copied from"
    )
    fetch: fields.Fetch = Field(default="node", title="which machine downloads the wheels")
    packages: fields.Switch | None = Field(
        default=None,
        title="whether the system has the packages of NCCL too: library, header, archive",
    )
    repository: RepositoryWanted | None = None


class ProxyWanted(Model):
    SHORT = "url"

    url: fields.ProxyUrl = Field(title="the proxy that the deploy's downloads on the node use")
    no_proxy: fields.Direct | None = Field(
        default=None, title="hosts, domains and addresses that are reached without the proxy"
    )


class SshWanted(Model):
    """`mesh`: every node logs in to every other; how the controller does is SshSettings' part."""

    mesh: fields.Switch | None = Field(
        default=None,
        title="whether the training user can log in from every node to every other node",
    )


_MESH = SshWanted.model_fields


class NetworkWanted(Model):
    SHORT = "interface"

    interface: fields.Interface = Field(
        title="the interface that NCCL uses; auto: the one that has the address of the node"
    )


class FirewallWanted(Model):
    trust_nodes: fields.Switch | None = Field(
        default=None,
        title="whether firewalld accepts all that comes from the addresses of the other nodes; the "
        "deploy tries ports between the nodes where it is true",
    )


class LauncherWanted(Model):
    SHORT = "kind"

    kind: fields.Launcher | None = Field(default=None, title="the launcher of the training jobs")
    user: fields.User | None = Field(
        default=None, title="the training user; without it the SSH user"
    )
    python: places.Python | None = Field(
        default=None,
        title="the Python of gpu-node verify; without it the first of nccl.environments",
    )

    @property
    def logs_in(self) -> bool:
        """Whether it logs in to the other nodes by name; others are started on each node."""
        return self.kind in ("deepspeed", "mpirun")


class WorkspaceWanted(Model):
    path: places.Tree = Field(title="the directory on the node")
    source: places.Source = Field(title="the machine that it is copied from")
    origin: places.Folder | None = Field(
        default=None, alias="from", title="the directory on the source; without it the same path"
    )
    exclude: places.Patterns | None = Field(
        default=None, title="files that are not copied and not deleted"
    )
    delete: fields.Switch | None = Field(
        default=None, title="deletes files that the source does not have"
    )
    delete_limit: places.Share = Field(
        default=20, title="the share of the files, and of their bytes, that one copy may delete"
    )
    checksum: fields.Switch | None = Field(
        default=None,
        title="a copy also sends files of equal size and time whose content differs; it reads all "
        "files on both sides. The report compares names, sizes and times alone: other content "
        "starts no copy",
    )
    backup: places.Backup = places.Backup()


class JobsWanted(Model):
    """What the training jobs ask of the nodes; it is judged, and nothing is changed for it."""

    precision: fields.Precision | None = Field(
        default=None, title="the number format that the jobs compute in"
    )
    flash_attention: fields.Switch | None = Field(
        default=None, title="whether the jobs use flash-attn 2"
    )
    parameters: fields.Parameters | None = Field(
        default=None, title="how many parameters the largest model has; judged together with zero"
    )
    zero: fields.ZeroStage | None = Field(
        default=None, title="the ZeRO stage of DeepSpeed; 0: each GPU has the whole model"
    )
    offload: fields.Offload | None = Field(
        default=None, title="whether optimizer and parameters are in the memory of the nodes"
    )


def _apart(workspaces: tuple[WorkspaceWanted, ...]) -> tuple[WorkspaceWanted, ...]:
    """Return workspaces of which none shares a directory with another."""
    pairs = [(each.path, each.origin or each.path) for each in workspaces]
    places = [{place.rstrip("/") for place in pair} for pair in pairs]
    if len(set().union(*places)) < sum(map(len, places)):
        raise ValueError("a directory is in two of them")
    return workspaces


Workspaces = Annotated[
    tuple[WorkspaceWanted, ...],
    BeforeValidator(places.filled),
    AfterValidator(_apart),
    Field(
        examples=[[{"path": "/data/models", "source": "controller"}]],
        description="a list such as [{path: /data/models, source: a100-01}]",
        title="more directories that are copied, each with the keys of workspace; workspace: [...] "
        "is the same",
    ),
]


class Areas(Model):
    """What a level of a cluster file can set: the defaults, a group or a host."""

    gpu: GpuWanted | None = None
    driver: DriverWanted | None = None
    shm: ShmWanted | None = None
    docker: DockerWanted | None = None
    limits: LimitsWanted | None = None
    toolchain: ToolchainWanted | None = None
    nccl: NcclWanted | None = None
    supply: SupplyWanted | None = None
    proxy: ProxyWanted | None = None
    ssh: SshWanted | None = None
    network: NetworkWanted | None = None
    firewall: FirewallWanted | None = None
    launcher: LauncherWanted | None = None
    jobs: JobsWanted | None = None
    sysctl: settings.Sysctls | None = None
    modprobe: settings.Modules | None = None
    services: settings.Services | None = None
    env: variables.Variables | None = None
    directories: places.Directories | None = None
    workspace: WorkspaceWanted | None = None
    checks: switched.Checks | None = None
    own_checks: own.OwnChecks | None = None
    workspaces: Workspaces | None = None
    drain: fields.Command | None = Field(
        default=None, title="runs on the controller before the node is rebooted"
    )
    resume: fields.Command | None = Field(
        default=None, title="runs on the controller after the node is rebooted"
    )


class NodeWanted(Areas):
    """What one node should be."""

    address: fields.Address

    @model_validator(mode="before")
    @classmethod
    def _has_a_first(cls, value: Any) -> Any:
        """A list alone: its first workspace is the one that the area is judged by."""
        listed = at(value, ("workspaces",))
        if not isinstance(listed, list | tuple) or at(value, ("workspace",)) is not None:
            return value
        first, *rest = listed or [None]
        if not isinstance(first, WorkspaceWanted) and complaints(WorkspaceWanted, first):
            return value  # the list is complained of
        return {**value, "workspace": first, "workspaces": rest or None}

    @property
    def is_cpu_node(self) -> bool:
        """Whether no rank of a job runs on the node: `gpu: none`."""
        return self.gpu is not None and self.gpu.model == NO_GPU

    @property
    def every_workspace(self) -> tuple[WorkspaceWanted, ...]:
        """The directories that are copied."""
        first = () if self.workspace is None else (self.workspace,)
        return (*first, *(self.workspaces or ()))

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Read flat host data (`shm_size: 8G`); keys of other programs are passed over.

        A host that no cluster file describes (`@local`, a bare address) wants nothing.

        A key that is absent or None is not managed; a bad value, or a misspelt key, is an
        InventoryError that names its flat key, because it may come from `--data`.
        """
        nested: dict[str, Any] = {"address": data.get("ssh_hostname") or "localhost"}
        paths = leaf_paths(cls)
        unknown = _misspelt(data, tuple(map(flat_key, paths)), tuple(cls.model_fields))
        for path in paths:
            value = data.get(flat_key(path))
            if value is not None:
                _put(nested, path, value)
        problems = [*unknown, *complaints(cls, nested), *unsigned_by_http(nested)]
        if problems:
            lines = [_in_data(problem, nested, paths) for problem in problems]
            raise InventoryError([line for _, line in lines], [key for key, _ in lines])
        return cls.model_validate(nested, context=fields.WRITTEN)


@cache
def _login_keys() -> tuple[str, ...]:
    """Return pyinfra's keys of a login, and those of the user that commands run as."""
    from pyinfra.api.arguments import auth_argument_meta  # slow to import
    from pyinfra.connectors.ssh import ConnectorData

    return (*ConnectorData.__annotations__, *auth_argument_meta)


def _misspelt(
    data: Mapping[str, Any], known: tuple[str, ...], sections: tuple[str, ...]
) -> Iterator[Problem]:
    """Yield keys near one of `known` or of a login, and a section in place of its flat keys."""
    login = _login_keys()
    for key, value in data.items():
        if key in known or key in login or not isinstance(key, str) or value is None:
            continue
        if key in sections:
            flat = ", ".join(each for each in (*known, *login) if each.startswith(f"{key}_"))
            why, then = "only a cluster file has sections", _in_flat_keys(key, value)
            yield Problem((key,), shown(value), why, flat, then)
        elif near := _meant(key, value, known, login):
            why = f"no such key, did you mean {near}?"
            yield Problem((key,), quoted(key), why, near, of_no_key(near) or f"write {near}")
        elif key.startswith("ansible_"):
            then = of_no_key(key) or "remove it, or write one of the allowed keys"
            yield Problem((key,), quoted(key), "a key of Ansible", ", ".join(login), then)


def _meant(key: str, value: object, known: tuple[str, ...], login: tuple[str, ...]) -> str:
    """Return the key that an unknown one is near to; empty where it can be another program's."""
    if key in UlimitsWanted.model_fields:
        return f"limits_{key}"
    # A list can be of another program: ssh_keys, which it lets in.
    if _OF_A_LOGIN.match(key) and not isinstance(value, list | tuple | dict):
        return login_key(key) or _nearest(key, (*known, *login), _NEAR)
    return _nearest(key, known, _NEAR)


def _in_flat_keys(area: str, value: object) -> str:
    """Return how a section, or a word in its place, is written in flat keys."""
    paths = [path for path in leaf_paths(NodeWanted) if path[0] == area]
    if isinstance(value, dict):
        given = [(path, each) for path in paths if (each := at(value, path[1:])) is not None]
    else:
        word = short_of(NodeWanted, (area,))
        paths = [path for path in paths if path[-1] == word] or paths
        meant = ((path, right_of(NodeWanted, path, value)) for path in paths)
        given = [each for each in meant if each[1] is not None][:1]
    lines = ", ".join(f"{flat_key(path)}: {as_yaml(each)}" for path, each in given)
    return f"write {lines or 'one of the allowed keys'}"


def _in_data(
    problem: Problem, nested: Mapping[str, Any], paths: Iterable[KeyPath]
) -> tuple[str, str]:
    """Return the flat key of a problem of host data, and the problem with its next step."""
    path = problem.path
    leaf = next((each for each in paths if path[: len(each)] == each), path)
    key = flat_key(leaf)
    name = key if leaf == path else str(path[-1])
    advice = advised(NodeWanted, problem, at(nested, path), name=name)
    return key, f"{dotted((key, *path[len(leaf) :]))}: {advice}"


def wanted_part(layer: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a node should be, without the keys for reaching it."""
    part = {key: value for key, value in layer.items() if key in NodeWanted.model_fields}
    ssh = part.pop("ssh", None)
    if isinstance(ssh, dict) and (mesh := {key: ssh[key] for key in ssh if key in _MESH}):
        part["ssh"] = mesh
    return part


@cache
def unset(area: str) -> BaseModel | None:
    """Return the section of an area with nothing set; None where it needs a value, or is none."""
    field = NodeWanted.model_fields.get(area)
    kind = section(field) if field else None
    if kind is None or any(each.is_required() for each in kind.model_fields.values()):
        return None
    return kind()


def _put(nested: dict[str, Any], path: KeyPath, value: object) -> None:
    for key in path[:-1]:
        nested = cast(dict[str, Any], nested.setdefault(str(key), {}))
    nested[str(path[-1])] = value

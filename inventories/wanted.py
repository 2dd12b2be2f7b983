"""What a node should be: an area or item that is None is not managed."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from typing_extensions import Self

from inventories import fields, packages, places, variables
from inventories.problems import InventoryError, KeyPath, Problem, did_you_mean, quoted, shown


class Model(BaseModel):
    """Refuses unknown keys and later changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    # The item that a word in the place of a section means: nccl: match-torch, driver: 535.
    SHORT: ClassVar[str] = ""


class GpuWanted(Model):
    model: fields.GpuModel
    count: fields.Count


class DriverPackagesWanted(Model):
    """What installs the driver where there is none, by the family of the package manager."""

    apt: packages.Packages | None = None
    rpm: packages.Packages | None = None


class DriverWanted(Model):
    SHORT = "version"

    version: fields.DriverVersion | None = None
    persistence: fields.Switch | None = None
    packages: DriverPackagesWanted | None = None
    hold_kernel: fields.Switch | None = None


class ShmWanted(Model):
    size: fields.Size
    kill_orphans: fields.Switch | None = None


class LimitsWanted(Model):
    nofile: fields.Nofile | None = None
    memlock: fields.Memlock | None = None
    stack: fields.Size | None = None


class CmakeWanted(Model):
    version: fields.Version
    url: fields.Url
    sha256: fields.Sha256
    fetch: fields.Fetch = "node"


class ToolchainWanted(Model):
    cmake: CmakeWanted | None = None
    packages: fields.Pins | None = None


class RepositoryWanted(Model):
    url: fields.Url
    # Where nodes of the apt family have another one.
    apt: fields.Url | None = None
    key: fields.RepositoryKey


class NcclWanted(Model):
    SHORT = "version"

    version: fields.NcclVersion = "match-torch"
    environments: fields.Environments | None = None
    # The node that an environment is copied from where it is missing.
    copy_from: places.Node | None = None
    fetch: fields.Fetch = "node"
    packages: fields.Switch | None = None
    repository: RepositoryWanted | None = None


class SshWanted(Model):
    """`mesh`: every node logs in to every other; how the controller does is SshSettings' part."""

    mesh: fields.Switch | None = None


_MESH = SshWanted.model_fields


class NetworkWanted(Model):
    SHORT = "interface"

    interface: fields.Interface


class LauncherWanted(Model):
    SHORT = "kind"

    kind: fields.Launcher | None = None
    user: fields.User | None = None
    python: places.Python | None = None


class WorkspaceWanted(Model):
    path: places.Tree
    source: places.Source
    # On the source; where it is not said it is `path`.
    origin: places.Folder | None = Field(default=None, alias="from")
    exclude: places.Patterns | None = None
    delete: fields.Switch | None = None
    # In percent of the target's files, and of their bytes.
    delete_limit: places.Share = 20
    backup: places.Backup = places.Backup()


class Areas(Model):
    """What may be said of a node on any level: for all, for its group, or for it alone."""

    gpu: GpuWanted | None = None
    driver: DriverWanted | None = None
    shm: ShmWanted | None = None
    limits: LimitsWanted | None = None
    toolchain: ToolchainWanted | None = None
    nccl: NcclWanted | None = None
    ssh: SshWanted | None = None
    network: NetworkWanted | None = None
    launcher: LauncherWanted | None = None
    env: variables.Variables | None = None
    directories: places.Directories | None = None
    workspace: WorkspaceWanted | None = None
    # Run on the controller before and after a reboot of the node.
    drain: fields.Command | None = None
    resume: fields.Command | None = None


class NodeWanted(Areas):
    """What one node should be."""

    address: fields.Address

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Read flat host data (`shm_size: 8G`); keys that are not ours are passed over.

        A host that no cluster file describes (`@local`, a bare address) wants nothing.

        A key that is absent or None is not managed; a bad value is an InventoryError that names
        its flat key, because it may come from `--data`.
        """
        nested: dict[str, Any] = {"address": data.get("ssh_hostname") or "localhost"}
        for path in leaf_paths(cls):
            value = data.get(flat_key(path))
            if value is not None:
                _put(nested, path, value)
        problems = complaints(cls, nested)
        if problems:
            raise InventoryError(f"{flat_key(problem.path)}: {problem}" for problem in problems)
        return cls.model_validate(nested, context=fields.WRITTEN)


def wanted_part(said: Mapping[str, Any]) -> dict[str, Any]:
    """What a cluster file says of a node, ways to reach it left out."""
    part = {key: value for key, value in said.items() if key in NodeWanted.model_fields}
    ssh = part.pop("ssh", None)
    if isinstance(ssh, dict) and (mesh := {key: ssh[key] for key in ssh if key in _MESH}):
        part["ssh"] = mesh
    return part


def flat_key(path: KeyPath) -> str:
    """The host data key of a field: shm_size for shm.size."""
    return "_".join(map(str, path))


def leaf_paths(model: type[BaseModel], above: KeyPath = ()) -> Iterator[KeyPath]:
    """The path of every value that a model holds, sections left out."""
    for name, field in _keys(model).items():
        inner = _section(field)
        if inner:
            yield from leaf_paths(inner, (*above, name))
        else:
            yield (*above, name)


def _keys(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """The fields of a model by the keys that a person writes for them."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def complaints(model: type[BaseModel], value: object, *, partial: bool = False) -> list[Problem]:
    """What is wrong with a written value of a model, in the words of its fields.

    A partial value may leave out items of its sections: another level may say them.
    """
    told = {problem.path: problem for problem in _left_empty(model, value)}
    try:
        model.model_validate(value, context=fields.WRITTEN)
    except ValidationError as error:
        for detail in error.errors():
            missing_inside = detail["type"] == "missing" and len(detail["loc"]) > 1
            if not (partial and missing_inside):
                told.setdefault(detail["loc"], _problem(model, detail))
    return list(told.values())


def at(value: object, path: KeyPath) -> object:
    """The value a path leads to, None where it leads nowhere."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def spelled_out(model: type[BaseModel], value: object) -> Iterator[tuple[KeyPath, object]]:
    """The sections of a written value for which a word stands, each with the mapping it means.

    A word, or a whole number, that is not allowed there is left as it is, to be complained of under
    its own key.
    """
    for name, field in model.model_fields.items():
        inner, written = _section(field), at(value, (name,))
        is_word = isinstance(written, str | int) and not isinstance(written, bool)
        if inner and is_word and (short := _short(inner)):
            meant = {short: written}
            if not any(problem.path == (short,) for problem in complaints(inner, meant)):
                yield (name,), meant


def _short(model: type[BaseModel]) -> str:
    return model.SHORT if issubclass(model, Model) else ""


def _left_empty(model: type[BaseModel], value: object) -> Iterator[Problem]:
    """A section may be empty; a key without its value is neither set nor left out."""
    for path in leaf_paths(model):
        holder = at(value, path[:-1])
        if isinstance(holder, dict) and holder.get(path[-1], "") is None:
            why = "to leave it unsaid, take the key out"
            allowed = _allowed(_field(model, path)[1], model)
            yield Problem(path, "nothing", why, allowed)


def _problem(model: type[BaseModel], detail: ErrorDetails) -> Problem:
    path, kind = detail["loc"], detail["type"]
    holder, field = _field(model, path)
    if kind == "extra_forbidden":
        known = sorted(_keys(holder))
        why = f"no such key{did_you_mean(str(path[-1]), known)}"
        return Problem(path, quoted(str(path[-1])), why, ", ".join(known))
    found = "nothing" if kind == "missing" else shown(detail["input"])
    why = fields.reason(detail["ctx"]["error"]) if kind == "value_error" else ""
    return Problem(path, found, why, _allowed(field, holder))


def _allowed(field: FieldInfo | None, holder: type[BaseModel]) -> str:
    inner = _section(field) if field else holder
    if inner:
        keys = sorted(_keys(inner))
        mapping = f"a mapping with the {'keys' if keys[1:] else 'key'} {', '.join(keys)}"
        short = _short(inner) if field else ""
        return f"{_description(inner.model_fields[short])}; or {mapping}" if short else mapping
    assert field is not None
    return _description(field)


def _description(field: FieldInfo) -> str:
    """The field's words; those of `Kind | None` are on Kind."""
    kinds = [meta for kind in get_args(field.annotation) for meta in get_args(kind)[1:]]
    words = [kind.description for kind in (field, *kinds) if isinstance(kind, FieldInfo)]
    return next((text for text in words if text), "another value")


def _field(model: type[BaseModel], path: KeyPath) -> tuple[type[BaseModel], FieldInfo | None]:
    """The field a path leads to, None for a key that no field has, and the model around it."""
    field = None
    for key in path:
        inner = _section(field) if field else None
        model = inner or model
        field = _keys(model).get(str(key))
        if field is None:
            break
    return model, field


def _section(field: FieldInfo) -> type[BaseModel] | None:
    """The model that a field holds, None for a plain value."""
    for kind in (field.annotation, *get_args(field.annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None


def _put(nested: dict[str, Any], path: KeyPath, value: object) -> None:
    for key in path[:-1]:
        nested = cast(dict[str, Any], nested.setdefault(str(key), {}))
    nested[str(path[-1])] = value

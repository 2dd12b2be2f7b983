"""A new server's entry in the cluster file: its group, by its GPUs, with the reasons."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from typing_extensions import override

from gpu_node.drift.driver.target import model_of
from gpu_node.drift.tables import is_model, kinds, known_models, short_model
from gpu_node.inventories.cluster import Cluster, Data
from gpu_node.inventories.errors import InventoryError, did_you_mean, shown, worded
from gpu_node.inventories.schema import IS_RESERVED, RESERVED, load, one_spelling
from gpu_node.inventories.servers_csv import wrong
from gpu_node.inventories.wanted import NO_GPU
from gpu_node.inventories.yaml.edit import EditError, with_group, with_host
from gpu_node.onboarding.errors import Refusal
from gpu_node.onboarding.journal import Journal

# A placeholder for the group of a machine whose GPUs are not known yet.
_UNKNOWN_GROUP = "GROUP"
_PCI_ID = re.compile(r"(?:0x|10de:)?([0-9a-f]{4})", re.IGNORECASE)


@dataclass(frozen=True)
class Gpus:
    """GPUs of one model: their names, each once, or the PCI ids that no table knows.

    `model` is the one of gpus.tsv, None where the table has none of that name.
    """

    names: tuple[str, ...]
    is_named: bool
    model: str | None
    count: int

    def are(self, model: str) -> bool:
        """Whether all of them are of a model as an inventory names it: in the name's words."""
        return all(is_model(name, model) for name in self.names)

    def unknown(self, groups: str) -> str:
        """Say that no table has them, and which of the inventory's keys makes up for it."""
        model = self.names[0] if self.is_named else "NAME"
        why = (
            f"no group is for them, and no table has this {'model' if self.is_named else 'PCI id'}"
        )
        key = f"gpu: {{model: {model}, count: {self.count}}}"
        step = f"give a group of the inventory {key}, and name it: --group {groups}"
        return worded(str(self), why, "", step)

    @override
    def __str__(self) -> str:
        return f"{self.count} x {' / '.join(self.names)}"


def gpus_of(gpus: Sequence[str]) -> Gpus:
    """Return what GPUs are, each given by its PCI id (0x1db6) or by the name nvidia-smi gives it.

    Raises Refusal without a GPU, and for two models, which no inventory can describe.
    """
    if not gpus:
        raise Refusal(
            "found no NVIDIA GPU on its PCI bus; allowed: a machine with one, or --group with a "
            "group of gpu: none, whose nodes only launch jobs; next: if it has one, lspci -d 10de: "
            "on it; a card that is not listed is not seated, has no power, or is off in the "
            "firmware"
        )
    named = [_named(gpu) for gpu in gpus]
    unknown = [_shown_id(each) for each, name in zip(gpus, named, strict=True) if name is None]
    names = [name for name in named if name is not None]
    counted = [*names, *unknown]
    if len(kinds(counted)) > 1:
        listed = ", ".join(f"{counted.count(each)} x {each}" for each in dict.fromkeys(counted))
        raise Refusal(
            f"found GPUs of {len(kinds(counted))} models ({listed}); allowed: one model a "
            "node; next: remove the other cards, also one for a display, or turn their slots off "
            "in the firmware"
        )
    distinct = tuple(dict.fromkeys(names or unknown))
    model = short_model(names[0]) if names else None
    return Gpus(distinct, bool(names), model, len(gpus))


def _named(gpu: str) -> str | None:
    match = _PCI_ID.fullmatch(gpu)
    return model_of(f"0x{match[1]}") if match else gpu


def _shown_id(gpu: str) -> str:
    match = _PCI_ID.fullmatch(gpu)
    return f"10de:{match[1].lower()}" if match else gpu


@dataclass(frozen=True)
class Proposal:
    """What is written for a new server, and one sentence for each decision.

    `new_group` is what the group says where the file has no such group yet, else None.
    """

    name: str
    address: str
    group: str
    new_group: Mapping[str, object] | None
    entry: dict[str, object]
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class _Choice:
    """The group that is chosen, and why."""

    group: str
    new: Mapping[str, object] | None
    reason: str


def entered(cluster: Cluster, name: str, address: str) -> bool:
    """Whether the file has this very host; Refusal where its name or its address is another's."""
    file = cluster.file
    for problem in wrong(name, address):
        raise Refusal(f"{problem.path[0]}: {problem}")
    if name in cluster.groups:
        raise Refusal(worded(shown(name), f"a group of {file} has this name", "another name"))
    if name in (*RESERVED, file.stem):
        raise Refusal(worded(shown(name), IS_RESERVED, "another name"))
    for host in cluster.nodes():
        same_address = one_spelling(host["address"]) == one_spelling(address)
        if host["name"] == name and not same_address:
            why = f"{file} has {name} with the address {host['address']}"
            raise Refusal(worded(shown(address), why, "that address, or another name"))
        if host["name"] != name and same_address:
            why = f"{file} has it as {host['name']}"
            allowed = f"a separate address, or the name {host['name']}"
            raise Refusal(worded(shown(address), why, allowed))
    return name in cluster.hosts


def proposed(
    cluster: Cluster, given: Journal, gpus: Sequence[str], interface: str | None = None
) -> Proposal:
    """Return the entry for a machine that was looked at, and that `given` says how to reach.

    `gpus` are its GPUs, each by its PCI id (0x1db6) or by nvidia-smi's name; `interface` is the one
    that carries its address, None where it is unknown.
    Refusal: there is no group for it, or its name or address is taken.
    """
    name, address, group = given.name, given.address, given.group
    if entered(cluster, name, address):
        raise Refusal(worded(shown(name), f"{cluster.file} has it already", "another name"))
    found: Gpus | None = None
    if group and not gpus and cluster.level(group).get("gpu_model") == NO_GPU:
        choice = _Choice(group, None, f"group {group}, as requested: its nodes only launch jobs")
    else:
        found = gpus_of(gpus)
        choice = _asked(cluster, found, group) if group else _fitting(cluster, found)
    if choice.group == name:
        why = "the group for its GPUs would have this name"
        allowed = f"another name, or --group {_groups(cluster)}"
        raise Refusal(worded(shown(name), why, allowed))
    own: dict[str, object] = {"address": address, "group": choice.group}
    reasons = [choice.reason]
    level = cluster.level(choice.group)
    for key, value, reason in (
        *(_own_gpu(level, found, choice) if found and choice.new is None else ()),
        *_own_ssh(level, given.user, given.port),
        *_own_network(level, interface),
    ):
        own[key] = value
        reasons.append(reason)
    return Proposal(name, address, choice.group, choice.new, own, tuple(reasons))


def expected(cluster: Cluster, given: Journal) -> Proposal | None:
    """Return the least that is written for a machine, before it is examined.

    None without a group: its GPUs decide it later.
    Raises Refusal for a group that does not exist, and that no GPU model would create.
    """
    group = given.group
    if group is None:
        return None
    if group not in cluster.groups and group not in map(_named_after, known_models()):
        raise _no_group(group, cluster.groups)
    own: dict[str, object] = {"address": given.address, "group": group}
    ssh = _own_ssh(cluster.level(group), given.user, given.port)
    own.update({key: value for key, value, _ in ssh})
    return Proposal(
        given.name, given.address, group, None if group in cluster.groups else {}, own, ()
    )


def check_place(cluster: Cluster, text: str, name: str, address: str) -> None:
    """Raise Refusal where the cluster file's text has no place for a host, whatever its group."""
    try:
        with_host(text, name, {"address": address, "group": _UNKNOWN_GROUP})
    except EditError as error:
        message = error.at(cluster.file)
        if f"group: {_UNKNOWN_GROUP}" in message:
            message += f", where {_UNKNOWN_GROUP} is the one for its GPUs: {_groups(cluster)}"
        raise Refusal(message) from None


def composed(cluster_file: Path, text: str, proposal: Proposal) -> str:
    """Return the cluster file's text with the proposal in it, as a file that can be loaded.

    Refusal: it cannot be edited, or would not be a valid one; with the lines that say why.
    """
    try:
        if proposal.new_group is not None:
            text = with_group(text, proposal.group, proposal.new_group)
        text = with_host(text, proposal.name, proposal.entry)
        load(cluster_file, text)
    except EditError as error:
        raise Refusal(error.at(cluster_file)) from None
    except InventoryError as error:
        raise Refusal(str(error)) from None
    return text


def _groups(cluster: Cluster) -> str:
    return ", ".join(cluster.groups)


def _asked(cluster: Cluster, gpus: Gpus, group: str) -> _Choice:
    """Return the group that was asked for, if it can be that machine's."""
    if group not in cluster.groups:
        new = _new(cluster, gpus) if gpus.model and not _fit(cluster, gpus) else None
        if new and new.group == group:
            return new
        raise _no_group(group, [*cluster.groups, *([new.group] if new else [])])
    model = cluster.level(group).get("gpu_model")
    if model and gpus.is_named and not gpus.are(str(model)):
        raise Refusal(
            f"--group: found {shown(group)} (its gpu.model is {model}, and the node has {gpus}); "
            f"allowed: a group for {gpus.model or gpus}, or none: it is then found by the GPUs"
        )
    if not gpus.is_named:
        return _Choice(group, None, f"group {group}, as requested: no table has its GPUs ({gpus})")
    return _Choice(group, None, f"group {group}, as requested: the node has {gpus}")


def _no_group(group: str, known: Collection[str]) -> Refusal:
    why = f"no such group{did_you_mean(group, known)}"
    allowed = ", ".join(known) or "none: it is then found by the GPUs"
    return Refusal(f"--group: {worded(shown(group), why, allowed)}")


def _fit(cluster: Cluster, gpus: Gpus) -> dict[str, str]:
    """Return the groups whose gpu.model the GPUs are, with that; the closest ones where many are.

    A count that is theirs is closer than another, then a longer name than a shorter one.
    """
    levels = {group: cluster.level(group) for group in cluster.groups}
    models = {
        group: str(level["gpu_model"]) for group, level in levels.items() if level.get("gpu_model")
    }
    fit = {group: model for group, model in models.items() if gpus.is_named and gpus.are(model)}
    counted = {each: fit[each] for each in fit if levels[each].get("gpu_count") == gpus.count}
    fit = counted or fit
    longest = max(map(len, fit.values()), default=0)
    return {group: model for group, model in fit.items() if len(model) == longest}


def _fitting(cluster: Cluster, gpus: Gpus) -> _Choice:
    """Return the one group for these GPUs, a new one where the file has none."""
    fit = _fit(cluster, gpus)
    if len(fit) > 1:
        why = f"the groups {', '.join(fit)} are all for them"
        raise Refusal(worded(str(gpus), why, "one group", "name one: --group"))
    for group, model in fit.items():
        return _Choice(group, None, f"group {group}: its gpu.model is {model}, the node has {gpus}")
    if gpus.model is None:
        raise Refusal(gpus.unknown(_groups(cluster)))
    return _new(cluster, gpus)


def _new(cluster: Cluster, gpus: Gpus) -> _Choice:
    """Return a group named after the model; one that is there and says nothing of GPUs will do."""
    model = str(gpus.model)
    group = _named_after(model)
    if group in cluster.groups:
        other = cluster.level(group).get("gpu_model")
        if other:
            why = f"no group is for them, and {group} is for {other}"
            raise Refusal(worded(str(gpus), why, "", f"name one: --group {_groups(cluster)}"))
        return _Choice(group, None, f"group {group}: it has the name of the node's GPUs, {gpus}")
    if group in cluster.hosts:
        why = f"no group can be called {group}, as a host is"
        raise Refusal(worded(str(gpus), why, "", "name one: --group"))
    settings = {"gpu": {"model": model, "count": gpus.count}}
    why = f": none of {_groups(cluster)} is for {gpus}" if cluster.groups else ""
    return _Choice(group, settings, f"group {group} is new{why}")


def _named_after(model: str) -> str:
    return re.sub("[^a-z0-9]+", "-", model.lower()).strip("-")


_Own = tuple[str, object, str]


def _own_gpu(level: Data, gpus: Gpus, choice: _Choice) -> Iterator[_Own]:
    """Yield what the host says of its GPUs itself: its group says another number, or half of it."""
    model, count = level.get("gpu_model"), level.get("gpu_count")
    own: dict[str, object] = {}
    if count and not model:
        own["model"] = gpus.model or gpus.names[0]
    if (model or count) and count != gpus.count:
        own["count"] = gpus.count
    if own:
        text = ", ".join(f"{key} {value}" for key, value in own.items())
        has = f"{count} for its count" if count else "no count"
        yield "gpu", own, f"gpu {text}: for this host alone, because group {choice.group} has {has}"


def _own_ssh(level: Data, user: str, port: int) -> Iterator[_Own]:
    """Yield how to reach the host where that is not how its group is reached."""
    own: dict[str, object] = {}
    if level.get("ssh_user") != user:
        own["user"] = user
    if (level.get("ssh_port") or 22) != port:
        own["port"] = port
    if user != "root" and not level.get("_sudo"):
        own["sudo"] = True
    if own:
        text = ", ".join(
            f"{key} {'true' if value is True else value}" for key, value in own.items()
        )
        yield "ssh", own, f"ssh {text}: it was reached so, and its group says otherwise or nothing"


def _own_network(level: Data, interface: str | None) -> Iterator[_Own]:
    """Yield the interface where its group names another one; auto finds it on each host."""
    named = level.get("network_interface")
    if interface and named not in (None, "auto", interface):
        yield "network", interface, f"network {interface}: it has the address, and {named} does not"

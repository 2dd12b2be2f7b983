"""What the report shows of torch and NCCL, and compares between nodes."""

from collections.abc import Callable, Iterator, Sequence

from gpu_node.drift.engine.fact import Fact, shows
from gpu_node.drift.nccl.compared import folders, in_folder, is_complete
from gpu_node.drift.nccl.libnccl import loaded, own
from gpu_node.facts.nccl.state import Environment, plain
from gpu_node.facts.node import NodeState


def _has_environments(node: NodeState) -> bool:
    return bool(node.nccl.environments)


def _has_libnccl(node: NodeState) -> bool:
    """Whether the system's libnccl matters: a node without it, and without torch, needs none."""
    named = node.nccl.environments.keys() - node.nccl.discovered.keys()
    return bool(named) or node.nccl.packages is None or bool(own(node.nccl))


def _each(node: NodeState, of: Callable[[Environment], str]) -> list[str] | None:
    """Return a text of each environment that has one; None where one could not be read."""
    texts: list[str] = []
    for prefix, environment in node.nccl.environments.items():
        if prefix in node.nccl.absent:
            texts.append("missing")
        elif environment is None:
            return None
        else:
            texts.append(of(environment))
    return [text for text in texts if text]


def _distinct(texts: list[str] | None) -> str | None:
    return None if texts is None else ", ".join(dict.fromkeys(texts)) or "none"


def _torch(environment: Environment) -> str:
    return environment.torch.version if environment.torch else "none"


def _loaded(environment: Environment) -> str:
    return loaded(environment) if environment.torch else ""


def _loaded_by(environment: Environment) -> str:
    loads = environment.loads
    if loads is None or not loads.path:
        return ""
    return f"{loads.reason}: {plain(loads.path).removesuffix('/libnccl.so.2')}"


@shows("nccl.torch", applies=_has_environments, compares=is_complete)
def torch(node: NodeState) -> str | None:
    return _distinct(_each(node, _torch))


@shows("nccl.loaded", applies=_has_environments, compares=is_complete)
def nccl_loaded(node: NodeState) -> str | None:
    """The version that torch loads, in the order of the environments."""
    return _distinct(_each(node, _loaded))


@shows("nccl.loaded_by", applies=_has_environments)
def loaded_by(node: NodeState) -> str | None:
    texts = _each(node, _loaded_by)
    return None if texts is None else ", ".join(texts) or "none"


@shows("nccl.package", applies=_has_libnccl)
def package(node: NodeState) -> str | None:
    packages = node.nccl.packages
    return None if packages is None else _distinct([each.version for each in own(node.nccl)])


def of_nodes(nodes: Sequence[NodeState]) -> Iterator[Fact]:
    """Yield facts for each environment that is compared by its folder, see `compared`."""
    for prefix in folders(nodes):
        yield in_folder("nccl.torch", prefix, _torch)
        yield in_folder("nccl.loaded", prefix, lambda each: _loaded(each) or "none")

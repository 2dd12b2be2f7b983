"""How a container is started so that it has what the inventory wants."""

from collections.abc import Iterator
from shlex import quote

from gpu_node.drift.units import at_least
from gpu_node.facts.node import NodeState
from gpu_node.inventories.fields.sizes import format_size
from gpu_node.inventories.wanted import NodeWanted


def run_options(state: NodeState, wanted: NodeWanted) -> list[str]:
    """Return the options of `docker run` that give a container what it lacks, as it runs now."""
    size = [f"--shm-size={format_size(wanted.shm.size).lower()}"] if wanted.shm else []
    return [*size, *_limits(state, wanted), *_variables(state, wanted)]


def _limits(state: NodeState, wanted: NodeWanted) -> Iterator[str]:
    """Yield --ulimit for each limit that a session here has less of than wanted."""
    session = state.limits.session
    if session is None or wanted.limits is None:
        return
    for item in ("nofile", "memlock"):
        asked, has = getattr(wanted.limits, item), getattr(session, item)
        if asked is not None and not (at_least(has.soft, asked) and at_least(has.hard, asked)):
            # docker takes bytes for memlock, and -1 for unlimited.
            value = -1 if asked == "unlimited" else asked
            yield f"--ulimit {item}={value}:{value}"
    if wanted.limits.stack is not None and session.stack.soft == "unlimited":
        yield f"--ulimit stack={wanted.limits.stack}"


def _variables(state: NodeState, wanted: NodeWanted) -> Iterator[str]:
    """Yield -e for each wanted variable that a launcher's shell here does not have.

    A session of the container's own sshd gets none of them.
    """
    has = state.env.launcher if state.ssh.reached is None else None
    for name, value in (wanted.env or {}).items():
        if has is not None and has.get(name) != value:
            yield f"-e {quote(f'{name}={value}')}"

"""What a systemd unit gives its daemon, and the drop-in of ours that gives it more."""

from gpu_node.drift.units import at_least
from gpu_node.facts.limits.services import Service, UnitLine
from gpu_node.facts.limits.state import Item, Limit, LimitsState
from gpu_node.inventories.wanted import LimitsWanted

# Drop-ins are read in the order of their names, whatever folder they are in (systemd.unit(5)).
_NAME = "zz-gpu-node.conf"
# Why no command of ours puts a drop-in in force.
WAITS = (
    "systemctl daemon-reload would take the GPUs from running containers: it is in force after the "
    "next boot"
)
# The keys of systemd.exec(5); both count in the kernel's unit.
KEYS: dict[Item, str] = {"nofile": "LimitNOFILE", "memlock": "LimitMEMLOCK"}


def slurmd(state: LimitsState) -> Service | None:
    """Return slurmd, where it runs: its jobs get no more than it has."""
    return next((service for service in state.services or () if service.name == "slurmd"), None)


def sshd(state: LimitsState) -> Service | None:
    """Return sshd, where it runs: this session is one of its own."""
    return next((service for service in state.services or () if service.name == "sshd"), None)


def sshd_line(state: LimitsState, item: Item) -> tuple[Service, UnitLine] | None:
    """Return the line of the unit of sshd that sets a limit, the last of several."""
    service, key = sshd(state), KEYS.get(item, "").lower()
    lines = [line for line in service.lines if f"limit{line.item}" == key] if service else []
    return (service, lines[-1]) if service and lines else None


def bound_to(state: LimitsState, item: Item, value: Limit) -> Service | None:
    """Return sshd where it can give no session that much: it may not raise its own hard limit."""
    service = sshd(state)
    if service is None or service.raises is not False or item == "stack":
        return None
    pair = getattr(service.limits, item)
    return service if pair is not None and not at_least(pair.hard, value) else None


def can_give(state: LimitsState, item: Item, value: Limit | None) -> bool:
    """Whether sshd is known to be able to give a session that much."""
    service = sshd(state)
    if service is None or value is None:
        return False
    pair = getattr(service.limits, item)
    return service.raises is True or (pair is not None and at_least(pair.hard, value))


def drop_in(unit: str) -> str:
    """Return the path of our drop-in of a unit."""
    return f"/etc/systemd/system/{unit}.d/{_NAME}"


def too_low(service: Service, wanted: LimitsWanted) -> dict[Item, Limit]:
    """Return the wanted limits that a daemon cannot give to its jobs."""
    expected = {item: getattr(wanted, item) for item in KEYS}
    return {
        item: value
        for item, value in expected.items()
        if value is not None and not at_least(getattr(service.limits, item).hard, value)
    }


def waits(service: Service, item: Item, value: Limit) -> bool:
    """Whether our drop-in sets a limit already."""
    text = setting(item, value).partition("=")[2]
    return any(
        line.path == drop_in(service.unit) and line.item == item and line.value == text
        for line in service.lines
    )


def later(service: Service, item: Item) -> UnitLine | None:
    """Return the line of a drop-in that is read after ours and sets the same limit."""
    for line in service.lines:
        name = line.path.rpartition("/")[2]
        if line.item == item and name.endswith(".conf") and name > _NAME:
            return line
    return None


def setting(item: Item, value: Limit) -> str:
    """Return a line of a unit."""
    return f"{KEYS[item]}={'infinity' if value == 'unlimited' else value}"


def text_of(service: Service, wanted: LimitsWanted) -> str:
    """Return the text of our drop-in: each limit that is too low, and what it gives already."""
    low = too_low(service, wanted)
    ours = {line.item: line.value for line in service.lines if line.path == drop_in(service.unit)}
    lines = [
        setting(item, low[item]) if item in low else f"{key}={ours[item]}"
        for item, key in KEYS.items()
        if item in low or item in ours
    ]
    head = "# Written by gpu-node; what is set here comes from the inventory (limits)."
    return "\n".join([head, "[Service]", *lines, ""])

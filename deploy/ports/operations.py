"""Operations on firewalld.

pyinfra has none for it; its iptables.rule is lost where firewalld loads its rules again.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyinfra import host, logger
from pyinfra.api import FunctionCommand, Host, State, operation

from gpu_node.deploy.engine.baseline import states
from gpu_node.deploy.engine.run import AskAll, Slot, run_of
from gpu_node.deploy.engine.scripts import Script, script
from gpu_node.deploy.files import replace as replacement
from gpu_node.deploy.files.operations import Commands
from gpu_node.deploy.ports.together import tried_again
from gpu_node.facts.node import NodeState
from gpu_node.facts.ports.firewalld import FirewalldMissing, Missing
from gpu_node.facts.ports.state import RECORD, Ports
from gpu_node.inventories.escape import visible

# How long firewalld has rules that are not proved.
TRIAL_SECONDS = 120
_TRIED: Slot[AskAll[NodeState | None]] = Slot(AskAll)


def changed(action: str, rules: Sequence[str] = (), copy: str = "") -> Script:
    """Return the command that tries, keeps or takes rules, each a zone and an address.

    With `back` the rules are as in `copy`, an earlier record.
    """
    words = {"action": action, "rules": "\n".join(rules), "seconds": str(TRIAL_SECONDS)}
    return script("firewalld", record=RECORD, copy=copy, backups=replacement.backups(), **words)


def _missing(interface: str, addresses: Sequence[str]) -> Missing:
    fact = host.get_fact(FirewalldMissing, interface=interface, addresses=list(addresses))
    return Missing.model_validate(fact)


@operation()
def trust(interface: str, addresses: Sequence[str]) -> Commands:
    """
    Have firewalld accept what comes from some addresses, for a time in which that is tried.

    + interface: that of the jobs, in whose zone the rules are
    + addresses: those of the other nodes
    """
    missing = _missing(interface, addresses)
    if missing.problem:
        yield replacement.unread("firewalld", missing.problem)
    elif missing.runtime:
        yield changed("try", missing.runtime)
    else:
        host.noop("firewalld accepts these addresses")


@operation()
def keep(interface: str, addresses: Sequence[str]) -> Commands:
    """
    Keep these rules if the other nodes reach the node by them, also after firewalld starts again.

    + interface: as of ``trust``
    + addresses: as of ``trust``
    """
    missing = _missing(interface, addresses)
    if missing.problem:
        yield replacement.unread("firewalld", missing.problem)
    elif missing.permanent:
        yield FunctionCommand(is_reached, [], {})
        yield changed("keep", missing.permanent)
    else:
        host.noop("firewalld keeps these addresses")


def is_reached(state: State, host: Host) -> bool:
    """Have the nodes try ports together; whether those that were blocked reach this node now."""
    before = states(state)
    results = (
        run_of(state).of(_TRIED).answers(state, lambda each: before.get(each.name), tried_again)
    )
    now = {name: each for name, each in results.items() if each is not None}
    blocked = [name for name, each in before.items() if not _reaches(each, host.name)]
    left = [name for name in blocked if name not in now or not _reaches(now[name], host.name)]
    if left:
        why = f"{', '.join(left)} cannot connect in spite of its rules"
        logger.error(
            f"{host.print_prefix}firewalld: {visible(why)}: nothing is kept, and the rules end "
            f"within {TRIAL_SECONDS} s; another rule of it, or of nft, blocks first"
        )
    return not left


def _reaches(state: NodeState, name: str) -> bool:
    """Whether a node's connections to another one are open, or it tried none."""
    tried = (state.ports.tried or {}).get(name)
    return tried is None or {*tried.ports} == {"open"}


@operation()
def forget(rules: Sequence[str]) -> Commands:
    """
    Remove rules of ours from firewalld.

    + rules: a zone and an address each, as in our record
    """
    there = host.get_fact(Ports)["trusted"] or ()
    if any(each in there for each in rules):
        yield changed("take", rules)
    else:
        host.noop("firewalld has no rule of a former node")

"""Operations on firewalld.

pyinfra has none for it; its iptables.rule is lost where firewalld loads its rules again.
"""

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
from gpu_node.facts.ports.state import RECORD, Ports
from gpu_node.inventories.escape import visible

# How long firewalld has rules that are not proved.
TRIAL_SECONDS = 120
_NOT_BLOCKED = {"open", "unknown"}
_TRIED: Slot[AskAll[NodeState | None]] = Slot(AskAll)


def changed(action: str, **variables: str) -> Script:
    """Return the command that changes rules of firewalld; firewalld.sh says what it needs."""
    known = {"seconds": str(TRIAL_SECONDS), "record": RECORD, "backups": replacement.backups()}
    empty = dict.fromkeys(("interface", "addresses", "rules", "copy"), "")
    return script("firewalld", action=action, **{**known, **empty, **variables})


@operation()
def trust(interface: str, addresses: Sequence[str], keep: bool = False) -> Commands:
    """
    Have firewalld accept what comes from some addresses, for a time in which that is tried.

    + interface: that of the jobs, in whose zone the rules are
    + addresses: those of the other nodes
    + keep: for good, if the other nodes reach this one by the rules of the trial
    """
    if not addresses:
        host.noop("no other node has an address")
        return
    if keep:
        yield FunctionCommand(is_reached, [], {})
    words = {"interface": interface, "addresses": " ".join(addresses)}
    yield changed("keep" if keep else "try", **words)


def is_reached(state: State, host: Host) -> bool:
    """Have the nodes try ports together; whether those that were blocked reach this node now."""
    before = states(state)
    results = (
        run_of(state).of(_TRIED).answers(state, lambda each: before.get(each.name), tried_again)
    )
    blocked = (name for name, each in before.items() if _ends(each, host.name) - _NOT_BLOCKED)
    left = [name for name in blocked if _ends(results.get(name), host.name) != {"open"}]
    if left:
        why = f"{', '.join(left)} cannot connect in spite of its rules"
        logger.error(
            f"{host.print_prefix}firewalld: {visible(why)}: nothing is kept, and the rules end "
            f"within {TRIAL_SECONDS} s; another rule of it, or of nft, blocks first"
        )
    return not left


def _ends(state: NodeState | None, name: str) -> set[str]:
    """Return how a node's connections to another one ended; empty if it tried none."""
    tried = state and (state.ports.tried or {}).get(name)
    return {*tried.ports} if tried else set()


@operation()
def forget(rules: Sequence[str]) -> Commands:
    """
    Remove rules of ours from firewalld.

    + rules: a zone and an address each, as in our record
    """
    there = host.get_fact(Ports)["trusted"] or ()
    if any(each in there for each in rules):
        yield changed("take", rules="\n".join(rules))
    else:
        host.noop("firewalld has no rule of a former node")

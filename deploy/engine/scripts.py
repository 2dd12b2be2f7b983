"""The POSIX sh scripts that change a node, each with its variables and the scripts it needs."""

import getpass
import os
import re
import shlex
import socket
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

from pyinfra import host as pyinfra_host
from pyinfra.api import Host, State, StringCommand
from pyinfra.connectors.util import CommandOutput
from pyinfra.context import ctx_host
from typing_extensions import override

from gpu_node.deploy.engine.plan import hooks
from gpu_node.deploy.engine.run import node_of
from gpu_node.facts.packages import locks as package_locks
from gpu_node.facts.packages.sources import HELD as HELD
from gpu_node.facts.packages.sources import PROXY_FILE, proxy_of
from gpu_node.facts.probe.owner import ENVIRONMENT_OWNER, OWNER, WRITERS_FILE
from gpu_node.facts.probe.process import SHARED as PROCESS
from gpu_node.facts.probe.redaction import SHARED as HIDE
from gpu_node.facts.probe.training_user import AS_USER

# Each script is in the folder of its area or of the machinery; each name is unique.
_FOLDERS = Path(__file__).parents[1]
FILES = {path.stem: path for path in sorted(_FOLDERS.glob("*/*.sh"))}
# The rule by which the probe and the repairs judge a group that may write.
FILES["writers"] = WRITERS_FILE
# The proxy by which the pre-flight asks for packages, and the repairs download them.
FILES["proxy"] = PROXY_FILE


# On the node; /run is emptied at boot.
LOCK = "/run/gpu-node.lock"
NOTE = package_locks.NOTE
# How long a step waits for another program's use of the package database, and for another run.
PATIENCE_SECONDS, RUN_SECONDS = 300, 600
# What a look ahead needs of the engine, beside what an area has for its script: it changes nothing.
_LOOKS = ("proxy", "no_answer", "transaction_deb", "transaction_rpm")
# All scripts begin so.
HEAD = "set -u\nLC_ALL=C; export LC_ALL"
# These define only functions; a script also calls them when it runs as another user.
_FUNCTIONS = (
    *("writers", "closed", "as_user_within", "place", "record", "noted", "pending", "no_answer"),
    "environment_pip",
)
_SENT = ("sent", "sent_sum", "pushed")
_OUTER = (*_SENT, "prefix", "allow", "backups")


def text(name: str) -> str:
    """Return the text of `name`.sh."""
    return FILES[name].read_text(encoding="utf-8")


@cache
def needed(name: str) -> tuple[str, ...]:
    """Return the scripts that stand before `name`.sh, in this order: its line `# Needs: ...`.

    Before each of them stands what that one needs.
    """
    named = _named(name, "Needs")
    return tuple(dict.fromkeys(more for each in named for more in (*needed(each), each)))


def harmless_holders(name: str) -> tuple[str, ...]:
    """Return the paths of the programs that may hold a GPU while `name`.sh runs.

    Its line `# Disturbs: STEP` names how it disturbs a running job; such a script has the variable
    `allow`.
    """
    steps = _named(name, "Disturbs")
    return tuple(path for step in steps for hook in hooks() for path in hook.harmless(step))


def is_by_owner(name: str) -> bool:
    """Whether by_owner.sh runs `name`.sh as an environment's owner: its line `# By: owner`."""
    return _named(name, "By") == ("owner",)


def given(name: str, by: str = "") -> dict[str, str]:
    """Return the variables that `name`.sh gets from any caller: its line `# Given: NAME ...`.

    `by` is the script that needs it. What a caller gives has precedence.
    """
    names = _named(name, "Given")
    known = [_known(by or name), *(hook.given for hook in hooks())] if names else []
    return {each: texts[each] for each in names for texts in known if each in texts}


def _known(name: str) -> dict[str, str]:
    """Return what the engine has for `name`.sh, and areas have not (`Hooks.given`)."""
    return {
        **{"owner": OWNER, "as_user": AS_USER, **dict([HIDE, PROCESS])},
        **{"lock": LOCK, "origin": origin(), "patience_for_runs": str(RUN_SECONDS)},
        **{"holding": HELD, "patience": str(PATIENCE_SECONDS), "note": NOTE},
        **proxy_of(cast(Mapping[str, Any], pyinfra_host.data) if ctx_host.isset() else {}),
        "disturbs": " ".join(_named(name, "Disturbs")),
        "holders": "\n".join(harmless_holders(name)),
        **dict.fromkeys((*_SENT, "backups"), ""),
    }


@cache
def _named(name: str, what: str) -> tuple[str, ...]:
    """Return the words of a line `# WHAT: ...` at the head of `name`.sh; none if it is missing."""
    match = re.search(rf"^# {re.escape(what)}: (.+)$", text(name), re.MULTILINE)
    return tuple(match[1].split()) if match else ()


class Script(StringCommand):
    """One of our scripts as a command: its output is shown at once, such as what it waits for."""

    @override
    def execute(
        self, state: State, host: Host, connector_arguments: Any
    ) -> tuple[bool, CommandOutput]:
        done, output = self.run(state, host, connector_arguments)
        node_of(host).is_recorded |= done and bool(_RECORDS.search(self.get_raw_value()))
        # pyinfra prints the output of a command that failed: it has been shown.
        return done, output if done else CommandOutput([])

    def run(self, state: State, host: Host, given: Any) -> tuple[bool, CommandOutput]:
        """Run it on a host; return whether it succeeded, and its output."""
        arguments = {**given, **self.connector_arguments}
        return host.run_shell_command(
            self, print_output=True, print_input=state.print_input, **arguments
        )


# The variable of the scripts that record what they change.
_RECORDS = re.compile(r"^backups=(?!'')", re.MULTILINE)


def origin() -> str:
    """Return who runs this, and where: another run's message names it."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a uid without an account, as in a container
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()} (pid {os.getpid()} there)"


def script(name: str, stdin: str | None = None, **variables: str) -> Script:
    """Return `name`.sh as one command; `variables` are quoted, `stdin` is a line it reads."""
    return _script(name, _first(name, variables), stdin, variables)


def look(name: str, **variables: str) -> str:
    """Return `name`.sh as it prints what its transaction would be refused for; nothing changes."""
    first = [
        each
        for each in _first(name, variables)
        if each in _LOOKS or FILES[each].parent.name not in ("engine", "files")
    ]
    return _script(name, (*first, "transaction", "look"), None, variables).get_raw_value()


def _first(name: str, variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return the scripts that stand before a script; of package managers only the node's."""
    other = "transaction_rpm" if variables.get("manager") == "apt-get" else "transaction_deb"
    return tuple(each for each in needed(name) if each != other)


def _script(
    name: str, first: tuple[str, ...], stdin: str | None, variables: Mapping[str, str]
) -> Script:
    last = name
    if is_by_owner(name):
        outer = {key: variables[key] for key in _OUTER if key in variables}
        variables = {**outer, **_by_owner(name, variables)}
        last = "by_owner"
    known: dict[str, str] = {}
    for each in dict.fromkeys([*first, last]):
        known |= given(each, name)
    texts = ["\n" + text(each) for each in first]
    body = "\n".join([HEAD, *_assignments({**known, **variables}), *texts, text(last)])
    return Script(body) if stdin is None else Script(body, _stdin=[stdin])


def as_user(user: str, name: str, head: str = "", **variables: str) -> StringCommand:
    """Return `name`.sh as a command that runs as another user, with `head`, sh, in front."""
    return script("as_user", user=user, as_user=AS_USER, run=as_run(name, head, **variables))


def _by_owner(name: str, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of by_owner.sh that runs `name`.sh."""
    inner = {key: value for key, value in variables.items() if key not in (*_SENT, "backups")}
    return {
        "run": as_run(name, **{**given(name), **inner}),
        "tidy": f"sent='' pushed=''\n{text('sent')}",
        "owner": f"{OWNER}{ENVIRONMENT_OWNER}",
    }


def as_run(name: str, head: str = "", **variables: str) -> str:
    """Return `name`.sh with its variables and functions, without what only root may do."""
    first = (f"\n{text(each)}\n" for each in needed(name) if each in _FUNCTIONS)
    return "".join(
        [f"{HEAD}\n{head}", *(f"{each}\n" for each in _assignments(variables)), *first, text(name)]
    )


def _assignments(variables: Mapping[str, str]) -> list[str]:
    return [f"{key}={shlex.quote(value)}" for key, value in variables.items()]

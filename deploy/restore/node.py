"""What a restore asks a node and writes there, over one open session, each answer with bounds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyinfra.api import Host, StringCommand
from pyinfra.connectors.util import CommandOutput

from gpu_node.deploy.engine.scripts import script, text
from gpu_node.deploy.files import replace as replacement
from gpu_node.deploy.files.changes import LONGEST, MOST_SHOWN
from gpu_node.deploy.files.confirm import CONFIRM_SECONDS, Trial, settled
from gpu_node.deploy.host.operations import applied
from gpu_node.deploy.ports.operations import changed
from gpu_node.deploy.restore.records import (
    MOST_BYTES,
    MOST_LINES,
    MOST_RUNS,
    RunRecord,
    parse,
)
from gpu_node.drift.ssh.sudo import becoming_root
from gpu_node.facts.ask.execute import NoAnswer, Rights, execute
from gpu_node.facts.limits.confirmed import SSHD, is_confirmed
from gpu_node.facts.ports.state import RECORD
from gpu_node.facts.probe.lines import decoded, lines_of
from gpu_node.facts.probe.records import ABSENT, line_of
from gpu_node.facts.probe.redaction import redacted
from gpu_node.facts.probe.request import request_of
from gpu_node.facts.probe.training_user import AS_USER
from gpu_node.inventories.errors import worded

# A change waits for the end of another run's.
_READ_SECONDS, _LOOK_SECONDS, _WRITE_SECONDS = 60, 300, 900


@dataclass(frozen=True)
class Target:
    """What becomes of one file: its sha256 now and before the runs, each or "absent".

    `backup` is the run that has a copy of it as it was before, `lines` are those that change.
    Without `now` it stays: it is as before, or `problem` is the reason.
    """

    path: str
    user: str
    now: str = ""
    before: str = ""
    mode: str = ""
    owners: str = ""
    backup: str = ""
    lines: tuple[str, ...] = ()
    problem: str = ""


class Refused(Exception):
    """The node does not do what it was asked; str() is the reason, as the node gives it."""


@dataclass(frozen=True)
class NodeFiles:
    """The files and records of one node, read and written with the `rights` of root."""

    host: Host
    rights: Rights

    @property
    def top(self) -> str:
        """The folder of all runs on the node."""
        return replacement.backups().rpartition("/")[0]

    def runs(self) -> tuple[RunRecord, ...]:
        """Return what runs have recorded, the newest first; raises Refused, Unusable."""
        bounds = {"runs": MOST_RUNS, "lines": MOST_LINES, "bytes": MOST_BYTES}
        most = {f"most_{name}": str(bound) for name, bound in bounds.items()}
        lines = self._run(script("runs", top=self.top, **most)).stdout_lines
        if lines == ["closed"]:
            user = self.host.data.dict().get("ssh_user") or "the SSH user"
            found = f"{self.top}, which only root can read"
            raise Refused(worded(found, "the records of runs", "root", becoming_root(user)))
        return parse(lines)

    def require_idle(self) -> None:
        """Raise Refused while a process of the node uses a GPU or has a libnccl mapped."""
        otherwise = "end them, or wait until the job has ended"
        self._run(script("idle", allow="no", otherwise=otherwise))

    def look(self, runs: Sequence[RunRecord], files: Mapping[str, str]) -> list[Target]:
        """Return what becomes of files (each with its user) if runs, newest first, are taken back.

        Raises Refused where a file or the copy of it cannot be read.
        """
        asked = {line_of(path): (path, user) for path, user in files.items()}
        given = {
            "top": self.top,
            "runs": " ".join(run.name for run in runs),
            "files": "\n".join(f"{line_of(user)} {name}" for name, (_, user) in asked.items()),
            "as_user": AS_USER,
            "most": str(MOST_SHOWN),
            "longest": str(LONGEST),
        }
        answer = self._run(script("preview", **given), _LOOK_SECONDS).stdout_lines
        lines = [line.split(" ") for line in answer[:-1]]
        if answer[-1:] != ["end"] or [words[0] for words in lines] != [*asked]:
            raise Refused("the answer of the node is cut short; run again")
        return [_target(*asked[name], *words) for name, *words in lines]

    def put_back(self, target: Target) -> tuple[str, Sequence[str]]:
        """Write what a file held before; return why that failed, or nothing, and lines to show.

        A file that can end all logins stays only if a new session opens, as in a deploy.
        """
        path, user, is_removed = target.path, target.user, target.before == ABSENT
        locks_out = is_confirmed(path)
        reload = text("reload_sshd") if path.startswith(SSHD) else applied(path)
        again = "600" if path.endswith("/.ssh/authorized_keys") else "644"
        copy = "/dev/null" if is_removed else f"{self.top}/{target.backup}{path}"
        command = replacement.put_back(
            path,
            user,
            target.now,
            target.before,
            copy,
            confirm_seconds=CONFIRM_SECONDS if locks_out else 0,
            then=reload,
            mode=again if is_removed else target.mode,
            owners="" if is_removed else target.owners,
        )
        try:
            if path == RECORD:
                self._run(changed("back", copy=copy), _WRITE_SECONDS)
            shown = self._run(command, _WRITE_SECONDS).stdout_lines
        except Refused as error:
            return str(error), ()
        if not locks_out:
            return "", shown
        account = "" if user == "root" else user
        accounts = () if account else (request_of(self.host.data.dict()).user,)
        trial = Trial(path, target.before, account, accounts, is_reread=True)
        return settled(self.host, trial, self.rights), shown

    def _run(self, command: StringCommand, seconds: int = _READ_SECONDS) -> CommandOutput:
        stdin: Sequence[str] = command.connector_arguments.get("_stdin") or ()  # type: ignore[assignment]
        try:
            done, output = execute(self.host.connector, command, seconds, self.rights, stdin)
        except NoAnswer as error:
            raise Refused(str(error)) from error
        if not done:
            last = output.stderr_lines[-1] if output.stderr_lines else "the node gave no reason"
            raise Refused(last.removeprefix("gpu-node: "))
        return output


def _target(path: str, user: str, how: str, *words: str) -> Target:
    """Return what a line of preview.sh says of a file."""
    why = " ".join(words)
    if how in ("same", "left"):
        return Target(path, user, problem=why)
    try:
        now, before, mode, owners, run, coded = words if how == "back" else ()
        shown = decoded(bytes.fromhex(coded))
    except ValueError:
        raise Refused(f"{path}: {why}") from None
    changed = tuple(map(redacted, lines_of(shown)))
    return Target(path, user, now, before, mode, owners, run, changed)

"""What a restore asks a node and writes there, over one open session, each answer with bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyinfra.api import Host, StringCommand
from pyinfra.connectors.util import CommandOutput

from gpu_node.deploy.engine.scripts import script, text
from gpu_node.deploy.files import replace as replacement
from gpu_node.deploy.files.confirm import CONFIRM_SECONDS, not_kept, put_back
from gpu_node.deploy.files.replace import ABSENT, replace, sum_of
from gpu_node.deploy.restore import places
from gpu_node.deploy.restore.records import (
    MOST_BYTES,
    MOST_LINES,
    MOST_READ,
    MOST_RUNS,
    RunRecord,
    Unusable,
    parse,
)
from gpu_node.deploy.restore.walk import Target
from gpu_node.drift.ssh.sudo import becoming_root
from gpu_node.facts.ask.execute import NoAnswer, Rights, execute
from gpu_node.facts.probe.file_bytes import FileBytes, FileContent
from gpu_node.facts.probe.request import request_of
from gpu_node.inventories.errors import worded

# A change waits for the end of another run's.
_READ_SECONDS, _WRITE_SECONDS = 60, 900


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
        # One line more shows that there are too many.
        bounds = {
            "runs": MOST_RUNS,
            "lines": MOST_LINES + 1,
            "bytes": MOST_BYTES,
            "total": MOST_READ,
        }
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

    def content(self, path: str, user: str) -> FileContent:
        """Return a file as it is now, read as the user whose home it is in; raises Refused."""
        return self._content(FileBytes().command(path=path, user=user), path)

    def backup(self, target: Target) -> FileContent:
        """Return what a file held before the runs, from the copy of one; raises Refused, Unusable.

        The copy must be the one of which the record has the sha256.
        """
        path = f"{self.top}/{target.backup}{target.path}"
        reading = FileBytes().command(path=path).get_raw_value()
        command = script("backup", top=self.top, backup=path, reading=reading)
        content = self._content(command, path)
        if not content["exists"] or sum_of(content["text"]) != target.before:
            raise Unusable(f"{path}: it is not the copy that the run made")
        return content

    def _content(self, command: StringCommand, path: str) -> FileContent:
        content = FileBytes().process(self._run(command).stdout_lines)
        if content["problem"]:
            raise Refused(f"{path}: {content['problem']}")
        return content

    def put_back(
        self, target: Target, now: FileContent, new: str | None
    ) -> tuple[str, Sequence[str]]:
        """Write what a file held before; return why that failed, or nothing, and lines to show.

        A file that can end all logins stays only if a new session opens, as in a deploy.
        """
        path, user = target.path, target.user
        locks_out = places.locks_out(path)
        reload = text("reload_sshd") if places.is_of_sshd(path) else ""
        command = replace(
            path,
            now,
            new,
            confirm_seconds=CONFIRM_SECONDS if locks_out else 0,
            user=user,
            then=reload,
            mode=target.change.mode or ("600" if path.endswith("/.ssh/authorized_keys") else "644"),
            owners=target.change.owners,
        )
        try:
            shown = self._run(command, _WRITE_SECONDS).stdout_lines
        except Refused as error:
            return str(error), ()
        if not locks_out:
            return "", shown
        return self._confirmed(path, user, target.before, reload), shown

    def _confirmed(self, path: str, user: str, after: str, reload: str) -> str:
        account = "" if user == "root" else user
        trainer = request_of(self.host.data.dict()).user
        reason = self._reloaded(reload) or not_kept(
            self.host,
            path,
            self.rights,
            after,
            user=account,
            accounts=() if account else (trainer,),
        )
        if not reason:
            return ""
        return f"{reason}: {put_back(self.host, path, account, self.rights)}"

    def _reloaded(self, reload: str) -> str:
        try:
            if reload:
                self._run(StringCommand(reload))
        except Refused as error:
            return str(error)
        return ""

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


def sum_of_content(content: FileContent) -> str:
    """Return the sha256 of a file as a record has it."""
    return sum_of(content["text"]) if content["exists"] else ABSENT

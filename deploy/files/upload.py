"""Sends a file together with a script: into a new folder that no other user can enter."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyinfra import logger
from pyinfra.api import Host, State
from pyinfra.connectors.util import CommandOutput
from typing_extensions import override

from gpu_node.deploy.engine.scripts import Script
from gpu_node.facts.ask.execute import execute
from gpu_node.inventories.escape import visible

# A predictable name may already be a link. mktemp(1) gives the folder mode 0700.
_FOLDER = "mktemp -d /var/tmp/gpu-node-sent.XXXXXX"
# If a disk hangs, neither command answers.
_FOLDER_SECONDS = 60
_NAME = re.compile(r"/var/tmp/gpu-node-sent\.[A-Za-z0-9]+")  # noqa: S108 (made by mktemp)


class Upload(Script):
    """A script that root runs with an uploaded file; sent.sh accepts only the right sha256.

    `make` returns the script for the variables of sent.sh.
    """

    def __init__(self, file: Path, make: Callable[..., Script]):
        super().__init__(*make().bits)
        self.file, self.make = file, make

    @override
    def run(self, state: State, host: Host, given: Any) -> tuple[bool, CommandOutput]:
        nothing = CommandOutput([])
        # Without sudo: only the script runs as root.
        done, output = execute(host.connector, _FOLDER, _FOLDER_SECONDS)
        folder = output.stdout_lines[-1] if done and output.stdout_lines else ""
        if not _NAME.fullmatch(folder):
            why = visible(output.stderr or folder or "it printed nothing")
            logger.error(f"{host.print_prefix}no folder in /var/tmp for {self.file.name}: {why}")
            return False, nothing
        sent = f"{folder}/{self.file.name}"
        try:
            done = host.put_file(str(self.file), sent)
        except BaseException:
            done = False
            raise
        finally:
            if not done:
                execute(host.connector, f"rm -rf {folder}", _FOLDER_SECONDS)
        if not done:
            return False, nothing
        return self.make(sent=sent, sent_sum=sum_of_file(self.file)).run(state, host, given)


def sum_of_file(file: Path) -> str:
    """Return the sha256 of a file of this machine."""
    digest = hashlib.sha256()
    with file.open("rb") as source:
        while block := source.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()

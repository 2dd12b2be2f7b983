"""What a killed script has left in /var/tmp is removed by the next one, and nothing else there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from pyinfra.api import StringCommand

from gpu_node.deploy.engine.scripts import FILES, needed, text
from tests.deploy.containing import Node
from tests.node_scripts import Ended, run_apart

KINDS = ("wheels", "packages", "pip", "box")
# No process has a number as large; the first process lives.
DEAD, LIVES = 4194304, 1
LEFT = [f"gpu-node-{kind}.{DEAD}.aB3xY9" for kind in KINDS]
IN_USE = [f"gpu-node-{kind}.{LIVES}.aB3xY9" for kind in KINDS]
OLD = ["gpu-node-sent.aB3xY9", "gpu-node-wheels.1bcdef", f"gpu-node-box.{LIVES}.oldold"]
OTHERS = ["gpu-node-sent.waits1", "gpu-node-torch-2.1.2-py3.whl", f"users.{DEAD}.aB3xY9"]
BEFORE = f"""
cd /var/tmp
for each in {" ".join([*LEFT, *IN_USE, *OLD, *OTHERS])}; do mkdir $each; echo a >$each/file; done
touch -d '2 days ago' {" ".join(OLD)}
"""
KEPT = " ".join(sorted([*IN_USE, *OTHERS]))


CLEAR = StringCommand(text("sent"))


def test_what_a_killed_run_has_left(shell: str) -> None:
    """At once where its process has ended; what may be of a run that waits, after a day."""
    after = [f'[ "$(ls -A /var/tmp | tr "\\n" " ")" = "{KEPT} " ]']
    done = run_apart(CLEAR, shell, BEFORE, after)
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize(
    "apart",
    [
        pytest.param(lambda: run_apart(CLEAR, "dash", ""), id="alone"),
        pytest.param(lambda: Node().run(CLEAR, "dash"), id="with containers"),
    ],
)
def test_a_script_of_another_test(apart: Callable[[], Ended]) -> None:
    """Among processes of its own it does not see that ours runs: it has a /var/tmp of its own."""
    folder = Path(f"/var/tmp/gpu-node-pip.{os.getpid()}.aB3xY9")
    folder.mkdir()
    try:
        assert apart().code == 0
        assert folder.is_dir()
    finally:
        folder.rmdir()


def test_another_accounts_folder(shell: str) -> None:
    """It is not removed, whatever its name is."""
    folder = f"/var/tmp/{LEFT[0]}"
    before = f"mkdir {folder}; chown 12345 {folder}"
    done = run_apart(CLEAR, shell, before, [f"[ -d {folder} ]"])
    assert (done.code, done.err) == (0, "")


def test_which_scripts_clear_away() -> None:
    """Those that make such folders, or run what does."""
    shared = {"transaction", "environment_pip"}
    folder = "mktemp -d /var/tmp/"
    making = {name for name in FILES if folder in text(name) or shared & {*needed(name)}}
    assert making - {"sent", "by_owner", *shared} == {
        name for name in FILES if "sent" in needed(name) and name != "cmake"
    }


@pytest.mark.parametrize("name", sorted(FILES))
def test_each_folder_has_the_number_of_its_process(name: str) -> None:
    """Otherwise it is known only after a day that a killed run has left it."""
    made = [line for line in text(name).splitlines() if "mktemp -d /var/tmp/" in line]
    assert all(".$$.XXXXXX" in line for line in made)

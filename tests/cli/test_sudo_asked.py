"""--ask-sudo-password: what is wrong with a command line is refused before a user types."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from gpu_node.cli.commands import NAMES, commands
from gpu_node.cli.main import main
from gpu_node.inventories.connection.sudo import SUDO
from gpu_node.onboarding.trust.password import Secret

WRONG = {
    "drift site.py -o report.pdf": "no format has this suffix",
    "drift site.py --only nothing": "an unknown word",
    "drift site.py --limit nowhere": "nowhere",
    "drift site.py --full --format json": "for the table alone",
    "deploy site.py --areas shmm": "no such area",
    "deploy site.py --limit nowhere": "nowhere",
    "fit site.py --limit nowhere": "nowhere",
    "hostfile site.py --limit nowhere": "nowhere",
    "verify site.py --limit nowhere": "nowhere",
    "restore site.py a100-01 --run x": "--run",
    "restore site.py a100-02": "did you mean a100-01?",
    "remove a100-09 --inventory site.yml": "no such host",
    "onboard --inventory site.yml": "a NAME, or --from FILE.csv",
    "onboard b-1 10.0.0.5 --inventory site.yml --group nowhere": "nowhere",
    "diagnose site.yml": "--ask-sudo-password without --inventory",
    "init a-1=10.0.0.4 --sudo": "it looks like NAME=ADDRESS",
    "check-job site.py --parameters many -- torchrun train.py": "--parameters",
}


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What a user at a terminal is asked."""
    prompts: list[str] = []

    def answered(prompt: str) -> Secret:
        prompts.append(prompt)
        return Secret("s3cret pass")

    monkeypatch.setattr("gpu_node.onboarding.trust.password.is_attended", lambda: True)
    monkeypatch.setattr("gpu_node.onboarding.trust.password.asked", answered)
    yield prompts
    SUDO.__init__()  # type: ignore[misc]


def ran(
    line: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    """Run a command in a folder, with the option; return what it prints to stderr."""
    monkeypatch.chdir(folder)
    command, *words = shlex.split(line)
    monkeypatch.setattr(sys, "argv", ["gpu-node", command, "--ask-sudo-password", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    return capsys.readouterr().err


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_word_is_refused_first(
    line: str,
    folder: Path,
    asked: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert WRONG[line] in ran(line, folder, monkeypatch, capsys)
    assert asked == []


def test_each_command_that_asks_has_a_wrong_word() -> None:
    """So that a new command is tried as well."""
    context = click.Context(commands)
    made = {name: commands.get_command(context, name) for name in NAMES}
    asking = {
        name
        for name, command in made.items()
        if command and any("--ask-sudo-password" in each.opts for each in command.params)
    }
    assert {line.split()[0] for line in WRONG} == asking


@pytest.mark.parametrize("command", ["drift", "deploy", "fit", "hostfile", "verify"])
def test_what_is_right_asks_once(
    command: str,
    folder: Path,
    asked: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The control."""
    ran(f"{command} site.py", folder, monkeypatch, capsys)
    assert asked == ["Password for sudo on the nodes: "]

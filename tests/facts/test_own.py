"""A site's own commands, run by each shell: who runs them, how they end, what they may print."""

from __future__ import annotations

import shlex
import shutil

from gpu_node.facts.own import Own
from gpu_node.facts.probe.protocol import Readings, read, render
from gpu_node.facts.probe.request import OwnCheck, ProbeRequest, request_of
from gpu_node.lab.machine import as_root
from tests.shells import SHELLS, as_lines, ask


def _asked(shell: str, *checks: OwnCheck) -> Readings:
    return ask(shell, Own().sections_for(ProbeRequest(own_checks=checks)))


def test_an_answer_has_code_and_text(shell: str) -> None:
    """Errors are part of the text; a mark of ours, a quote and a sign of the terminal are text."""
    mark = r"printf '\033[1m%s' '@@gpu-node end own.mark'"
    checks = (
        OwnCheck("licence", "printf ' 7.2\n'", same="everywhere"),
        OwnCheck("fails", "echo no >&2; exit 3"),
        OwnCheck("mark", mark),
        OwnCheck("input", "cat; echo 'it'\\''s over'"),
        OwnCheck("ends", "kill -9 $$"),
        OwnCheck("kills", "kill -9 $PPID; sleep 9"),
    )
    state = Own.parse(_asked(shell, *checks))
    assert {name: (each.code, each.text) for name, each in state.answers.items()} == {
        "licence": (0, "7.2"),
        "fails": (3, "no"),
        "mark": (0, "\x1b[1m@@gpu-node end own.mark"),
        "input": (0, "it's over"),
        "ends": (137, "Killed") if "Killed" in state.answers["ends"].text else (137, ""),
        "kills": (137, "Killed") if "Killed" in state.answers["kills"].text else (137, ""),
    }
    assert [each.same for each in state.answers.values()] == ["everywhere", "", "", "", "", ""]


def test_an_endless_command_hides_no_other(shell: str) -> None:
    """It is unreadable; the next one has its answer."""
    readings = _asked(shell, OwnCheck("endless", "yes"), OwnCheck("next", "echo 1"))
    assert Own.parse(readings).answers["next"].text == "1"
    (unread,) = readings.unread
    assert unread.section == "own.endless"
    assert "more than a section may" in unread.reason


def test_a_command_that_kills_the_shell_of_its_section(shell: str) -> None:
    """Its end is missing, as where it prints too much: the reason names both."""
    above = "p=$(awk '/^PPid/ { print $2 }' /proc/${p:-$$}/status)"
    killed = f"for up in 1 2 3; do {above}; done; kill -9 $p; sleep 1"
    readings = _asked(shell, OwnCheck("kills", killed), OwnCheck("next", "echo 1"))
    assert Own.parse(readings).answers["next"].text == "1"
    (unread,) = readings.unread
    assert "its shell was killed" in unread.reason


def test_who_runs_a_command(shell: str) -> None:
    """The training user, without the variables of root; with `root` root, or an answer says no."""
    checks = (
        OwnCheck("user", "id -un; echo ${SECRET-none}"),
        OwnCheck("root", "id -un", root=True),
    )
    sections = Own().sections_for(ProbeRequest(user="daemon", trains_apart=True, own_checks=checks))
    program, *options = SHELLS[shell]
    script = f"SECRET=x; export SECRET\n{render(sections)}"
    by_root = as_root([str(shutil.which(program)), *options, "-c", script])
    state = Own.parse(read(as_lines(by_root.stdout.encode()), sections))
    assert [each.text for each in state.answers.values()] == ["daemon\nnone", "root"]
    line = shlex.join([str(shutil.which(program)), *options, "-c", script])
    without = as_root(["su", "-s", "/bin/sh", "daemon", "-c", line])
    state = Own.parse(read(as_lines(without.stdout.encode()), sections))
    assert state.answers["user"].text.startswith("daemon")
    assert "not root" in state.answers["root"].text
    assert state.answers["root"].code == 1


def test_the_inventory_decides_what_is_asked() -> None:
    """Its data has plain types."""
    data = {"own_checks": [{"name": "a", "command": "id", "root": True, "same": "per-model"}]}
    assert request_of(data).own_checks == (OwnCheck("a", "id", root=True, same="per-model"),)
    assert Own().sections_for(ProbeRequest()) == ()

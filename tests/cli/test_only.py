"""`gpu-node drift --only`: what it shows, and what it refuses; the exit code is the report's."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_node.cli.main import main
from tests.cli.answering import gathered

Run = Callable[..., tuple[object, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a report on a node that has something to repair: exit code, stdout and stderr."""
    site = tmp_path / "site.yml"
    site.write_text("cluster: c\nhosts: {a100-01: {address: 192.0.2.1}}\n")

    def ran(*words: str) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["gpu-node", "drift", str(site), *words])
        with pytest.raises(SystemExit) as ended:
            main()
        output = capsys.readouterr()
        return ended.value.code, output.out, output.err

    monkeypatch.setattr("gpu_node.cli.asking.gather", gathered())
    monkeypatch.setenv("COLUMNS", "120")
    return ran


@pytest.mark.parametrize("word", ["shm", "shm.too-small", "a100-01", "nccl,shm"])
def test_a_problem_is_chosen(run: Run, word: str) -> None:
    code, out, err = run("--only", word)
    assert (code, err) == (2, "")
    assert "  shm.too-small  " in out


def test_a_problem_is_chosen_in_full(run: Run) -> None:
    """With its cause and fix, and without the facts, which are for --facts."""
    code, out, err = run("--only", "shm", "--full")
    assert (code, err) == (2, "")
    assert "shm.too-small" in out and "  cause " in out and "toolchain.kernel" not in out
    assert "toolchain.kernel" in run("--only", "shm", "--full", "--facts")[1]
    code, out, err = run("--only", "nccl", "--full")
    assert (code, err) == (2, "")
    assert "no problems in nccl" in out and "--only leaves out 1 problem" in out
    assert "shm.too-small" not in out


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("shm.to-small", "did you mean shm.too-small?"),
        ("nonsense\x1b", r"found 'nonsense\x1b' (an unknown word)"),
    ],
)
def test_an_unknown_word(run: Run, word: str, hint: str) -> None:
    """One line with what is allowed."""
    code, out, err = run("--only", word)
    assert (code, out) == (1, "")
    assert hint in err and "allowed: a rule, an area or a node" in err


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--only", ""], "--only: found '' (an unknown word)"),
        (["--only", "a100-1"], "--only: found 'a100-1' (an unknown word, did you mean a100-01?)"),
        (["-o", ""], "--output: found nothing; allowed: a file"),
        (["-o", "/"], "--output: found a directory (cannot write /)"),
        (["-o", "/nope/x"], "--output: found no such folder: /nope (cannot write /nope/x)"),
        (["-o", "/dev/null/x"], "--output: found not a directory (cannot write /dev/null/x)"),
        (["-o", "x" * 100_000], "--output: found file name too long (cannot write 'xxx"),
    ],
)
def test_no_node_is_asked(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: list[str], found: str
) -> None:
    """What is wrong whatever the nodes answer costs no wait."""

    def asked(*_: object) -> None:
        raise AssertionError("nodes were asked")

    monkeypatch.setattr("gpu_node.cli.asking.ask", asked)
    code, out, err = run(*words)
    assert (code, out) == (1, "")
    assert err.startswith(f"gpu-node: {found}") and len(err) < 300


@pytest.mark.parametrize("path", ["a" * 100_000, f"{'a' * 100_000}.yml", f"b/{'a' * 100_000}.py"])
def test_a_long_name_is_cut(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], path: str
) -> None:
    for words in (["drift", path], ["remove", "n", "--inventory", path]):
        monkeypatch.setattr(sys, "argv", ["gpu-node", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        err = capsys.readouterr().err
        assert ended.value.code == 1
        assert "(file name too long)" in err and len(err) < 400

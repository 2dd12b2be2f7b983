"""How the lines of logs become an answer, with causes that are made up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_node.diagnose.answer import EXCEPTION, Answer, diagnose
from gpu_node.diagnose.cause import Cause
from gpu_node.diagnose.match import RANKED
from gpu_node.diagnose.report import as_json, render
from gpu_node.diagnose.sources import Log, logs
from gpu_node.drift.report.formats import plain, printed
from tests.case_files import load
from tests.facts.test_redaction import HIDDEN_LINES, assert_no_secret

CASES: dict[str, dict[str, Any]] = load((Path(__file__).parent / "answers.yml").read_text())
SEEN = {"seen": "here"}
OF_PATTERN = ("near", "without", "alone", "final", "confidence")


def cause(name: str, has: str, **others: Any) -> Cause:
    """Return a cause with one pattern, which has the keys of OF_PATTERN."""
    of_pattern: dict[str, Any] = {key: others.pop(key) for key in OF_PATTERN if key in others}
    pattern = {"has": has, "source": SEEN, **of_pattern}
    texts = {"says": f"it is {name}", "side": "machines", "confirm": "look", "remedy": "mend"}
    return Cause.model_validate({"name": name, "patterns": [pattern], **texts, **others})


KNOWN = {
    each.name: each
    for each in (
        cause("full", "disk is full", explains=["key"]),
        cause("quota", "quota is used up"),
        cause("key", "no such key", side="code"),
        cause("reset", "connection was reset", level="symptom"),
        cause("broken", "broken pipe", level="consequence", look=["the log above"]),
        cause("ended", "launcher has ended", level="consequence", final=True),
        cause("slow", "slow fabric", alone=False),
        cause("vague", "something went wrong", confidence="low"),
        cause("watchdog", "Watchdog caught", level="symptom"),
        Cause(name="ranks-in-different-collectives", says="ranks differ", side="code"),
        Cause(name="nccl-versions-differ", says="versions differ", side="machines"),
        cause("lanes", "out of lanes", near=["one lane"], without=["resumed"], rules=["a.b"]),
        Cause(name=EXCEPTION, says="an exception", side="code"),
    )
}


def answered(case: dict[str, Any], folder: Path) -> Answer:
    """Return the answer to the logs of a case; `then` lines follow without a failure."""
    for name, text in case.get("logs", {"train.log": case.get("log")}).items():
        after = "".join(f"step {number}\n" for number in range(case.get("then", 0)))
        (folder / name).write_bytes(text.encode("utf-8", "surrogateescape") + after.encode())
    return diagnose(*logs((str(folder),)), KNOWN)


@pytest.mark.parametrize("name", CASES)
def test_an_answer(name: str, tmp_path: Path) -> None:
    """What is named, the line that shows it first, and what failed or passed."""
    case = CASES[name]
    answer = answered(case, tmp_path)
    assert [each.cause.name for each in answer.candidates] == case["named"]
    sure = [RANKED.index(each.confidence) for each in answer.candidates]
    assert sure == sorted(sure), "none is surer than the one before it"
    if "says" in case:
        assert answer.candidates[0].says == case["says"]
    if "first" in case:
        line = answer.candidates[0].evidence[0]
        who = [f"rank {line.rank}"] * (line.rank is not None) + [f"on {line.node}"] * bool(
            line.node
        )
        shown = as_json(answer, None)["candidates"][0]["evidence"][0]["text"]
        assert [" ".join([str(line.number), *who]), shown[: len(case["first"][1])]] == case["first"]
    assert answer.verdict == case.get("verdict", "cause" if case["named"] else "nothing known")
    if not case["named"] or "failing" in case:
        assert [each.text for each in answer.failing] == case.get("failing", [])


@pytest.mark.parametrize("name", CASES)
def test_the_same_answer_is_printed(name: str, tmp_path: Path) -> None:
    """The text names what JSON names, and nothing steers the terminal."""
    answer = answered(CASES[name], tmp_path)
    text = printed(render(answer, None), plain(width=100))
    for candidate in as_json(answer, None)["candidates"]:
        assert candidate["cause"] in text
        assert f"{candidate['evidence'][0]['line']}" in text
    assert not {*text} & {"\x1b", "\r", "\a"}
    assert ("nothing known" in text) == (answer.verdict == "nothing known")


def test_no_secret_of_a_log_is_shown() -> None:
    """Neither for people nor in the JSON; what is no secret is."""
    for line, shown in HIDDEN_LINES:
        text = f"Traceback (most recent call last):\nValueError: {line}\n"
        answer = diagnose([Log("train.log", None, data=text.encode())])
        assert answer.failing
        text = f"{printed(render(answer, None), plain(width=1000))}{as_json(answer, None)}"
        assert_no_secret(text)
        assert shown[:10] in text

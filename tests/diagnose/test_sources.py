"""Which files are read as logs, and what is reported of the others."""

from __future__ import annotations

import gzip
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_node.diagnose import sources
from gpu_node.diagnose.answer import diagnose
from gpu_node.diagnose.sources import LogError, logs

GOOD = b"step 1\nstep 2\n"


def test_what_a_folder_cannot_give_is_named(tmp_path: Path) -> None:
    """A link to elsewhere, a damaged gz and a file of another kind; a checkpoint is no log."""
    (tmp_path / "a.log").write_bytes(GOOD)
    (tmp_path / "b.log").symlink_to("/dev/null")
    (tmp_path / "latest.log").symlink_to("a.log")
    (tmp_path / "args.pkl").write_bytes(pickle.dumps(Path("/")))
    (tmp_path / "c.log.gz").write_bytes(gzip.compress(GOOD * 100_000)[:-20])
    (tmp_path / "d.txt").write_bytes("step".encode("utf-16"))
    (tmp_path / "model.bin").write_bytes(bytes(range(256)) * 8 + b"\0" * 2000)
    deep = tmp_path / "1/2/3/4/5/6/7/8/9"
    deep.mkdir(parents=True)
    (deep / "e.log").write_bytes(GOOD)
    answer = diagnose(*logs((str(tmp_path),)))
    assert answer.verdict == "nothing known"
    lost = "\n".join(answer.size.lost)
    for name in ("b.log", "c.log.gz", "d.txt", "1/2/3/4/5/6/7/8:"):
        assert f"{tmp_path}/{name}" in lost
    assert not any(each in lost for each in ("model.bin", "latest.log", "args.pkl"))
    assert not answer.flights
    assert answer.size.lines > 2


def test_a_log_with_zeros_is_a_text(tmp_path: Path) -> None:
    """One that was cut while it grew begins with them, and a killed process may leave some."""
    (tmp_path / "a.log").write_bytes(b"\0" * 9000 + GOOD + b"\0\0" + GOOD)
    assert diagnose(*logs((str(tmp_path / "a.log"),))).verdict == "healthy"


@pytest.mark.parametrize("data", [b"\xfd7zXZ\0\0", b"PK\x03\x04rest", b"\x28\xb5\x2f\xfdrest"])
def test_a_packed_file_is_refused(tmp_path: Path, data: bytes) -> None:
    """But for gzip."""
    (tmp_path / "a.log").write_bytes(data)
    with pytest.raises(LogError, match=r"not a text.*next: unpack it, or convert it"):
        logs((str(tmp_path / "a.log"),))


def test_a_packed_file_among_logs_is_named(tmp_path: Path) -> None:
    """The others are read, as those of a folder are."""
    (tmp_path / "a.log").write_bytes(b"PK\x03\x04")
    (tmp_path / "b.log").write_bytes(b"KeyError: 1\n")
    answer = diagnose(*logs((str(tmp_path / "a.log"), str(tmp_path / "b.log"))))
    assert answer.size.lost == [f"{tmp_path / 'a.log'}: not a text"]
    assert [each.text for each in answer.failing] == ["KeyError: 1"]


def test_a_log_that_is_named_twice_counts_once(tmp_path: Path) -> None:
    """And each rank is that of its own file."""
    (tmp_path / "rank_3.log").write_bytes(b"KeyError: 1\n")
    name = str(tmp_path / "rank_3.log")
    answer = diagnose(*logs((name, name)))
    assert answer.logs == 1
    assert [each.rank for each in answer.failing] == [3]


def _by_link(path: Path, elsewhere: Path) -> None:
    path.unlink()
    path.symlink_to(elsewhere / path.name)


def _by_pipe(path: Path, _elsewhere: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _by_folder(path: Path, elsewhere: Path) -> None:
    path.parent.rename(path.parent.with_suffix(".old"))
    path.parent.symlink_to(elsewhere)


CHANGES = {"a link": _by_link, "a pipe": _by_pipe, "a folder above": _by_folder}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("moment", ["found", "read"])
@pytest.mark.parametrize("change", CHANGES)
def test_another_file_in_the_place_of_a_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, moment: str
) -> None:
    """Its owner may change it at any moment: nothing of another file is shown, and none waits."""
    elsewhere = tmp_path / "elsewhere"
    for folder in (tmp_path / "logs/run", elsewhere):
        folder.mkdir(parents=True)
    (elsewhere / "a.log").write_bytes(b"KeyError: planted\n")
    log = tmp_path / "logs/run/a.log"
    log.write_bytes(GOOD)
    (tmp_path / "logs/b.log").write_bytes(b"KeyError: of-the-job\n")

    def change_now() -> None:
        CHANGES[change](log, elsewhere)

    if moment == "found":
        # Between the look at the file and its opening.
        monkeypatch.setattr(sources, "_log", _after(log, change_now, sources._log))
    found = logs((str(tmp_path / "logs"),))
    if moment == "read":
        change_now()
    answer = diagnose(*found)
    assert [each.text for each in answer.failing] == ["KeyError: of-the-job"]
    assert answer.size.lost
    assert "planted" not in str(answer)


def _after(
    log: Path, change: Callable[[], None], made: Callable[..., object]
) -> Callable[..., object]:
    def changed(path: Path, *rest: object) -> object:
        if path == log:
            change()
        return made(path, *rest)

    return changed


def test_a_link_that_is_named_is_read(tmp_path: Path) -> None:
    """Of a file, and of a folder: only what is found in a folder may not lead out of it."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run/a.log").write_bytes(GOOD)
    (tmp_path / "latest").symlink_to("run")
    (tmp_path / "latest.log").symlink_to("run/a.log")
    for name in ("latest", "latest.log"):
        assert diagnose(*logs((str(tmp_path / name),))).verdict == "healthy"

"""The store: what it keeps, how long, how quickly, and what it does with a file that is none."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from gpu_node.drift.report.model import Report
from gpu_node.history import store as module
from gpu_node.history.compare import Key, Snapshot, node_of, snapshot
from gpu_node.history.store import StoreError, identity, opened
from tests.commands import REPOSITORY
from tests.drift import states
from tests.history.kept import FIRST, HOUR, INVENTORY, keep, report_of, seen_of

SMALL = {"found": {"shm": {"usage": {"size": 67108864}}}}
DAY = 86400
NODES, REPORTS = 50, 500


def kept() -> int:
    """Return how many reports are kept."""
    with opened() as store:
        return store.count(INVENTORY)


def test_only_what_changes_is_added(store: Path) -> None:
    """A text is kept once, a value of a node once for all reports with it."""
    nodes: dict[str, Any] = {f"n{number}": {} for number in range(20)}
    keep(nodes)
    base = sqlite3.connect(store)
    counts = ("SELECT count(*) FROM fact", "SELECT count(*) FROM value")
    first = [base.execute(each).fetchone() for each in counts]
    keep(nodes, 1)
    keep({**nodes, "n0": SMALL}, 2)
    after = [base.execute(each).fetchone() for each in counts]
    # The size of /dev/shm, which is what the finding has found as well.
    assert [now[0] - before[0] for now, before in zip(after, first, strict=True)] == [1, 1]
    assert first[1][0] < 60


def test_events() -> None:
    """Each change with the report that shows it; what is unchanged, and a first report, is none."""
    keep({"a": {}, "b": {}})
    keep({"a": SMALL, "b": {}}, 1)
    keep({"a": SMALL, "b": "unreachable"}, 2)
    keep({"a": {}, "b": {}}, 3)
    with opened() as store:
        events = store.events(INVENTORY)
        late = store.events(INVENTORY, since=FIRST + 3 * HOUR)
        of_one = store.events(INVENTORY, "b")
    listed = [
        ((each.at - FIRST) // HOUR, each.node, each.kind, each.name, each.before, each.now)
        for each in events
    ]
    assert listed == [
        (0, "a", "first", "", None, None),
        (0, "b", "first", "", None, None),
        (1, "a", "fact", "shm.size", "8G", "64M"),
        (1, "a", "new", "shm.too-small", None, "error"),
        (2, "b", "fact", "answer", "answered", "unreachable"),
        (3, "a", "fact", "shm.size", "64M", "8G"),
        (3, "b", "fact", "answer", "unreachable", "answered"),
        (3, "a", "gone", "shm.too-small", "error", None),
    ]
    assert late == events[5:] and of_one == [each for each in events if each.node == "b"]


def test_a_node_that_first_answers() -> None:
    """It is one change: its facts and findings are those of a first report."""
    for number, node in enumerate(("unreachable", "unreachable", SMALL, {})):
        keep({"a": node}, number)
    with opened() as store:
        events = [(each.kind, each.name) for each in store.events(INVENTORY)]
    assert events == [
        *(("first", ""), ("fact", "answer")),
        *(("fact", "shm.size"), ("gone", "shm.too-small")),
    ]


def test_runs(store: Path) -> None:
    """Between the changes, in their order; a store of before this table has none, and gets it."""
    keep({"a": {}})
    sqlite3.connect(store).execute("DROP TABLE IF EXISTS run")
    with opened() as old:
        assert [each.kind for each in old.events(INVENTORY)] == ["first"]
    with opened(making=True) as new:
        for day in (-200, 0, 1):
            new.keep_run(INVENTORY, FIRST + 60 + day * DAY, "deploy", f"R{day}", {"a": "done"})
        new.keep_run("/srv/other.yml", FIRST, "restore", "R", {"b": "done"})
    keep({"a": SMALL}, 1)
    with opened() as kept_now:
        events = kept_now.events(INVENTORY)
        assert kept_now.nodes("/srv/other.yml") == ["b"]
    assert [(each.kind, each.name) for each in events] == [
        *(("first", ""), ("deploy", "R0")),
        *(("fact", "shm.size"), ("new", "shm.too-small"), ("deploy", "R1")),
    ]


def test_another_severity() -> None:
    """A finding that gets worse is new, and is one change in the list, not two."""
    now = snapshot(report_of(seen_of({"a": SMALL})), frozenset())
    key = Key("shm.too-small", "/dev/shm")
    known = now.nodes["a"].findings[key]
    with opened(making=True) as store:
        for number, severity in enumerate(("info", "error", "warning")):
            now.nodes["a"].findings[key] = type(known)(severity, known.found, known.wanted)  # type: ignore[arg-type]
            store.keep(INVENTORY, FIRST + number, now)
        events = [(each.kind, each.before, each.now) for each in store.events(INVENTORY)[1:]]
    assert events == [("changed", "info", "error"), ("changed", "error", "warning")]


def test_the_time_of_a_report() -> None:
    """The last one that was made at a moment or before it."""
    for number in range(3):
        keep({"a": {}}, number)
    with opened() as store:
        found = [store.report_at(INVENTORY, FIRST + at) for at in (-1, 0, HOUR + 5, 9 * HOUR)]
        assert [each and (each.at - FIRST) // HOUR for each in found] == [None, 0, 1, 2]
        assert store.report_at("/srv/other.py") is None


@pytest.mark.parametrize("limit", ["count", "age", "size"])
def test_old_reports_are_removed(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what only they have; what still holds then holds since the first that is kept."""
    monkeypatch.setattr(module, "_SLACK", 0)
    if limit == "count":
        monkeypatch.setattr(module, "MOST_REPORTS", 3)
    if limit == "age":
        monkeypatch.setattr(module, "MOST_DAYS", 0.1)
    keep({"a": SMALL, "removed": SMALL})
    for number in range(1, 6):
        keep({"a": {"found": {"toolchain": {"os": f"System {number}"}}}}, number)
    if limit == "size":
        assert kept() == 6
        monkeypatch.setattr(module, "MOST_BYTES", 1)
    keep({"a": {}}, 40)
    assert kept() == {"count": 3, "age": 1, "size": 3}[limit]
    with opened() as store:
        assert store.nodes(INVENTORY) == ["a"]
        assert [*store.known(INVENTORY)] == ["a"]
        assert {each.name for each in store.events(INVENTORY)} <= {"", "toolchain.os"}
        assert "System 1" not in _texts(store) and "64M" not in _texts(store)


def _texts(store: module.Store) -> set[str]:
    return {text for (text,) in store._base.execute("SELECT text FROM value")}


def test_an_inventory_that_is_not_used_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reports are removed by those of another one, when they are old."""
    keep({"a": {}})
    seen = seen_of({"b": {}})
    now = snapshot(report_of(seen), frozenset())
    with opened(making=True) as store:
        store.keep("/srv/other.py", FIRST + (module.MOST_DAYS + 2) * DAY, now)
        assert store.report_at(INVENTORY) is None and store.nodes(INVENTORY) == []


def test_both_files_of_an_inventory_are_one(tmp_path: Path) -> None:
    """Whichever a user types, the reports are of the same cluster."""
    cluster, inventory = tmp_path / "site.yml", tmp_path / "site.py"
    cluster.touch()
    alone = identity(str(cluster))
    inventory.touch()
    assert identity(str(cluster)) == identity(str(inventory)) != alone


def test_it_is_for_its_owner_alone(store: Path) -> None:
    """The folder and the file, whatever the umask is; wider modes are narrowed."""
    before = os.umask(0)
    try:
        keep({"a": {}})
    finally:
        os.umask(before)
    modes = [stat.S_IMODE(each.stat().st_mode) for each in (store.parent, store)]
    assert modes == [0o700, 0o600]
    store.parent.chmod(0o755)
    store.chmod(0o644)
    keep({"a": {}}, 1)
    assert [stat.S_IMODE(each.stat().st_mode) for each in (store.parent, store)] == [0o700, 0o600]


def _link_file(store: Path) -> None:
    (store.parent.parent / "other.db").touch()
    store.symlink_to("../other.db")


def _link_folder(store: Path) -> None:
    store.parent.rmdir()
    (store.parent.parent / "other").mkdir()
    store.parent.symlink_to("other")


def _loop_folder(store: Path) -> None:
    store.parent.rmdir()
    store.parent.symlink_to("gpu-node")


def _newer(store: Path) -> None:
    base = sqlite3.connect(store)
    base.execute("PRAGMA user_version = 2")
    base.close()


def _cut(store: Path) -> None:
    keep({"a": {}})
    os.truncate(store, store.stat().st_size // 2)


def _other_types(store: Path) -> None:
    keep({"a": SMALL})
    base = sqlite3.connect(store)
    base.execute("UPDATE value SET text = x'ff00'")
    base.commit()
    base.close()


def _other_tables(store: Path) -> None:
    base = sqlite3.connect(store)
    base.execute("CREATE TABLE report (x)")
    base.close()


def _open_parent(store: Path) -> None:
    store.parent.parent.chmod(0o777)


def _group_parent(store: Path) -> None:
    os.chown(store.parent.parent, -1, 12345)
    store.parent.parent.chmod(0o775)


def _listed_parent(store: Path) -> None:
    subprocess.run(["setfacl", "-m", "u:12345:rwx", str(store.parent.parent)], check=True)


def _linked_parent(store: Path) -> None:
    real = store.parents[2] / "open/state"
    real.parent.mkdir()
    store.parent.parent.rename(real)
    store.parent.parent.symlink_to(real)
    real.parent.chmod(0o777)


def _give_away(store: Path) -> None:
    store.touch()
    os.chown(store, 12345, -1)


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "a link": (_link_file, "history.db is a symbolic link"),
    "a folder that is a link": (_link_folder, "gpu-node is a symbolic link"),
    "a folder that is a loop": (_loop_folder, "gpu-node is a symbolic link"),
    "a pipe": (os.mkfifo, "is neither a plain file nor a folder"),
    "a folder": (Path.mkdir, "is neither a plain file nor a folder"),
    "no database": (lambda store: store.write_bytes(b"x" * 9000), "is damaged: file is not a"),
    "cut off": (_cut, "is damaged: database disk image is malformed"),
    "other types": (_other_types, "is damaged: bytes in place of a text"),
    "other tables": (_other_tables, "table report already exists"),
    "newer": (_newer, "a newer gpu-node has written it (format 2, this one reads 1)"),
    "in a folder of all users": (_open_parent, "every user may change"),
    "in a folder of a group": (_group_parent, "the group 12345 may change"),
    "in a folder with an access list": (_listed_parent, "an access list may change"),
    "behind a link": (_linked_parent, "every user may change"),
    "of another user": (lambda store: os.chown(store.parent, 12345, -1), "uid 12345"),
    "a file of another user": (_give_away, "belongs to another user, uid 12345"),
}
AS_ROOT = ("of another user", "a file of another user", "in a folder of a group")
_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[_ROOT] * (name in AS_ROOT)) for name in BROKEN]
)
def test_what_is_no_store_is_refused(name: str, store: Path) -> None:
    """With the reason, without a change of it, and without waiting for a pipe's writer."""
    make, why = BROKEN[name]
    store.parent.mkdir(parents=True)
    make(store)
    before = store.lstat().st_mtime_ns if store.exists() else 0
    with pytest.raises(StoreError) as refused:
        keep({"a": {}}, 1)
    assert why in str(refused.value)
    assert (store.lstat().st_mtime_ns if store.exists() else 0) == before
    assert (
        not (store.parent.parent / "other.db").exists()
        or not (store.parent.parent / "other.db").stat().st_size
    )


def test_a_group_of_this_user_alone(store: Path) -> None:
    """With umask 002, as distributions have it for private groups, each folder is the group's."""
    before = os.umask(0o002)
    try:
        store.parents[2].joinpath("state").mkdir()
        keep({"a": {}})
    finally:
        os.umask(before)
    assert store.parents[1].stat().st_mode & 0o777 == 0o775 and kept() == 1


def test_a_damaged_index(store: Path) -> None:
    """It finds no report, and is no reason to say that none is kept."""
    keep({"a": {}})
    base = sqlite3.connect(store)
    query = "SELECT rootpage FROM sqlite_master WHERE type = 'index' AND tbl_name = 'inventory'"
    page, size = base.execute(query).fetchone()[0], base.execute("PRAGMA page_size").fetchone()[0]
    base.close()
    with store.open("r+b") as opened_file:
        opened_file.seek((page - 1) * size + 3)  # how many cells this page has
        opened_file.write(b"\0\0")
    with pytest.raises(StoreError, match="is damaged"), opened() as broken:
        assert broken.report_at("site.yml") is None
        broken.check_all()


def test_a_locked_store(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait for another process has an end; the next report is kept."""
    monkeypatch.setattr(module, "_WAIT_SECONDS", 0.1)
    keep({"a": {}})
    other = sqlite3.connect(store, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreError, match=r"is locked by another process for more than 0\.1 s"):
        keep({"a": {}}, 1)
    other.execute("ROLLBACK")
    keep({"a": {}}, 1)
    assert kept() == 2


def test_a_full_disk() -> None:
    """The report before is whole, and the next one is kept."""
    keep({"a": {}})
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, most[1]))
    try:
        with pytest.raises(StoreError):
            keep({f"n{number}": SMALL for number in range(300)}, 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, most)
        signal.signal(signal.SIGXFSZ, ignored)
    assert kept() == 1
    keep({"a": SMALL}, 2)
    assert kept() == 2


def test_a_folder_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be made below /proc, by root neither."""
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/state")
    with pytest.raises(StoreError, match=r"no such file or directory|permission denied"):
        keep({"a": {}})


def test_folders_that_are_made_are_this_users_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also where the umask leaves new folders to a group that others are in."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "a/b"))
    before = os.umask(0o000)
    try:
        keep({"a": {}})
    finally:
        os.umask(before)
    assert kept() == 1
    modes = {each.name: oct(each.stat().st_mode & 0o777) for each in (tmp_path / "a").rglob("*")}
    assert modes == {"b": "0o700", "gpu-node": "0o700", "history.db": "0o600"}


def test_a_relative_folder_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As the specification of XDG wants it."""
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    keep({"a": {}})
    assert (tmp_path / "home" / ".local" / "state" / "gpu-node" / "history.db").is_file()


# Keeps reports from a number on, and prints a line for each that is kept.
KEEPING = """
import sys
from tests.history.kept import keep
for number in range(int(sys.argv[1]), int(sys.argv[1]) + int(sys.argv[2])):
    found = {"shm": {"usage": {"size": 67108864 * (1 + number % 7)}}}
    keep({f"n{each}": {"found": found} for each in range(10)}, number)
    print(number, flush=True)
"""


def _keeping(first: int, count: int) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-c", KEEPING, str(first), str(count)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, cwd=REPOSITORY)


@pytest.mark.slow
def test_two_processes_at_once() -> None:
    """All reports of both are kept, also where both make the store."""
    both = [_keeping(first, 10) for first in (0, 100)]
    for each in both:
        each.communicate(timeout=120)
    assert [each.returncode for each in both] == [0, 0]
    assert kept() == 20


@pytest.mark.slow
def test_it_is_killed_while_it_keeps_a_report() -> None:
    """At most the last report is lost, and the store is whole."""
    done = 0
    for number in range(3):
        process = _keeping(number * 1000, 1000)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.02 * number)
        process.kill()
        done += 1 + process.stdout.read().count(b"\n")
        process.wait()
        assert done <= kept() <= done + number + 1
    with opened() as store:
        assert store._one("PRAGMA integrity_check") == "ok"
    keep({"a": {}}, 9999)


def test_hostile_values(store: Path) -> None:
    """Of any length and any characters: they are kept cut, and a change of their end is seen."""
    long = "\x1b[31m'; DROP TABLE report; --" + "x" * 100_000
    nodes = {"a": {"found": {"toolchain": {"os": long}}}}
    keep(nodes)
    keep(nodes, 1)
    keep({"a": {"found": {"toolchain": {"os": long + "y"}}}}, 2)
    with opened() as opened_store:
        events = opened_store.events(INVENTORY)
    assert [each.name for each in events] == ["", "toolchain.os"]
    assert str(events[1].before).startswith("\x1b[31m'; DROP TABLE report; --xxx")
    assert len(str(events[1].now)) < 400 and events[1].before != events[1].now
    assert store.stat().st_size < 200_000


def test_many_findings_of_a_node(store: Path) -> None:
    """A node can have the store grow by so much alone."""
    seen = seen_of({"a": SMALL})
    report = report_of(seen)
    one = report.hosts["a"].findings[0]
    many = [one.model_copy(update={"subject": f"{n}" + "x" * 5000}) for n in range(3000)]
    node = node_of(report.hosts["a"].model_copy(update={"findings": many}))
    with opened(making=True) as opened_store:
        opened_store.keep(INVENTORY, FIRST, Snapshot({"a": node}))
    assert len(node.findings) == 500
    assert store.stat().st_size < 1_000_000


def _filling(number: int) -> dict[str, Any]:
    """What a node reports that has other environments, packages and findings each time."""
    packages = {f"package-{number}-{each}": "1" for each in range(400)}
    environments = {f"/opt/{number}-{each}": {"packages": packages} for each in range(5)}
    found = {"nccl": {"environments": environments}, "toolchain": {"os": f"System {number}"}}
    return {"found": found}


def test_a_node_that_fills_the_store(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It loses its own history, and the changes of another node stay listed."""
    monkeypatch.setattr(module, "MOST_BYTES", 200_000)
    for number in range(60):
        keep({"a": SMALL if number == 1 else {}, "b": _filling(number)}, number)
    with opened() as opened_store:
        of_a = [
            (each.kind, (each.at - FIRST) // HOUR) for each in opened_store.events(INVENTORY, "a")
        ]
        known = opened_store.known(INVENTORY)
    assert kept() == 60
    assert of_a == [("first", 0), ("fact", 1), ("new", 1), ("fact", 2), ("gone", 2)]
    assert known["b"].facts["toolchain.os"] == "System 59"
    base = sqlite3.connect(store)
    pages = [
        base.execute(f"PRAGMA {each}").fetchone()[0] for each in ("page_count", "freelist_count")
    ]
    base.close()
    assert (pages[0] - pages[1]) * 4096 < 250_000


def test_secrets_of_a_report_are_not_in_the_store(store: Path) -> None:
    """No more is kept than facts and findings, whose values are without secrets."""
    daemon: dict[str, Any] = {
        **{"kind": "root", "pid": 1, "path": "/d.json"},
        "text": '{"http-proxy": "//u:planted@h"}',
    }
    keep({"a": {"found": {"shm": {"docker": {"daemons": [daemon]}}}}})
    assert b"planted" not in store.read_bytes()


def _cluster(number: int) -> Report:
    """Return the report about fifty nodes, of which some have drift, others each time."""
    packages = {f"package-{each}": f"1.{each}" for each in range(300)}
    found: dict[str, Any] = {"nccl": {"environments": {"/opt/dis": {"packages": packages}}}}
    small = {**found, "shm": {"usage": {"size": 67108864 * (1 + number)}}}
    whole, drift = states.seen(found), states.seen(small)
    return report_of(
        {f"n{each:02}": drift if each % 10 == number else whole for each in range(NODES)}
    )


@pytest.mark.slow
def test_a_report_costs_little() -> None:
    """With 500 reports of 50 nodes: to keep one, and to list them all."""
    clusters = [_cluster(number) for number in range(3)]
    snapshots = [snapshot(report, frozenset()) for report in clusters]
    with opened(making=True) as store:
        for number in range(REPORTS):
            store.keep(INVENTORY, FIRST + number * HOUR, snapshots[number % 3])
    seconds = []
    for number in range(REPORTS, REPORTS + 20):
        before = time.process_time()
        now = snapshot(clusters[number % 3], frozenset())
        with opened(making=True) as store:
            store.keep(INVENTORY, FIRST + number * HOUR, now)
        seconds.append(time.process_time() - before)
    assert median(seconds) < 0.05
    before = time.process_time()
    with opened() as store:
        assert len(store.events(INVENTORY)) > 2 * REPORTS
    assert time.process_time() - before < 0.3

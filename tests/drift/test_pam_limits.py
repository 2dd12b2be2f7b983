"""How pam_limits decides, and that our file says no more than it has to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_node.drift.limits.pam_limits import (
    OwnLines,
    deciding,
    domains,
    higher,
    is_known,
    lacking,
    own_lines,
    with_own,
)
from gpu_node.facts.limits.confirmed import CONF_D, OWN_FILE
from gpu_node.facts.limits.state import CONF, LimitsState, Line, User
from gpu_node.inventories.wanted import LimitsWanted
from tests.drift import states

ROOT = User(name="root", uid=0, gids=(0,), groups=("root",))
TRAIN = User(name="train", uid=1000, gids=(1000, 990), groups=("train", "docker"))
LATE = f"{CONF_D}/zz.conf"


def line(domain: str, value: int, kind: str = "-", path: str = CONF, item: str = "nofile") -> Line:
    """Return a line of a limits file."""
    return Line.model_validate(
        {"path": path, "line": 1, "domain": domain, "kind": kind, "item": item, "value": value}
    )


def of(user: User, spares_root: bool = True) -> LimitsState:
    """Return what was found of a user, on Debian or elsewhere."""
    change = {"user": user.model_dump(), "pam": {"spares_root": spares_root}}
    return states.state({"limits": change}).limits


def decided(lines: list[Line], user: User, kind: str = "soft", **node: bool) -> int | None:
    """Return the value of the line that wins."""
    best = deciding(of(user, **node), lines, "nofile").get("soft" if kind == "soft" else "hard")
    return int(best.value) if best else None


WINNERS = {
    "no line": ([], TRAIN, None),
    "the last of two equals": ([line("*", 1), line("*", 2)], TRAIN, 2),
    "a user beats a later group": ([line("train", 1), line("@docker", 2)], TRAIN, 1),
    "a group beats a later wildcard": ([line("@docker", 1), line("*", 2)], TRAIN, 1),
    "a user beats a later wildcard": ([line("train", 1), line("*", 2)], TRAIN, 1),
    "a later user beats a wildcard": ([line("*", 1), line("train", 2)], TRAIN, 2),
    "the last of two groups": ([line("@train", 1), line("@docker", 2)], TRAIN, 2),
    "another user's line": ([line("guest", 1), line("@guests", 2)], TRAIN, None),
    "a group is not a user": ([line("docker", 1)], TRAIN, None),
    "a user is not a group": ([line("@root", 1)], ROOT, None),
    "a name that ends as a group does": ([line("xdocker", 1)], TRAIN, None),
    "the wildcard leaves root out": ([line("*", 1)], ROOT, None),
    "root by name": ([line("root", 1), line("*", 2)], ROOT, 1),
    "another item": ([line("train", 1, item="memlock")], TRAIN, None),
    "the other kind": ([line("train", 1, "hard")], TRAIN, None),
    "both kinds": ([line("train", 1, "soft"), line("train", 2, "-")], TRAIN, 2),
    "one uid": ([line(":1000", 1), line("*", 2)], TRAIN, 1),
    "one other uid": ([line(":1001", 1)], TRAIN, None),
    "uids up to the last": ([line("500:1000", 1)], TRAIN, 1),
    "uids before": ([line("500:999", 1)], TRAIN, None),
    "uids from the first on": ([line("1000:", 1)], TRAIN, 1),
    "uids behind": ([line("1001:", 1)], TRAIN, None),
    "a uid is as good as the name": ([line("train", 1), line("1000:1000", 2)], TRAIN, 2),
    "root by uid": ([line("0:0", 1)], ROOT, 1),
    "a colon alone": ([line(":", 1)], TRAIN, None),
    "one gid of any group": ([line("@:990", 1)], TRAIN, 1),
    "one other gid": ([line("@:991", 1)], TRAIN, None),
    "gids, by the primary group": ([line("@1000:2000", 1)], TRAIN, 1),
    "gids, not by another group": ([line("@990:991", 1)], TRAIN, None),
    "gids from the first on": ([line("@1000:", 1)], TRAIN, 1),
    "a group beats a login group": ([line("@docker", 1), line("%docker", 2)], TRAIN, 1),
    "a login group beats the wildcard": ([line("%docker", 1), line("*", 2)], TRAIN, 1),
    "another login group": ([line("%slurm", 1)], TRAIN, None),
    "every login beats the wildcard": ([line("%", 1), line("*", 2)], TRAIN, 1),
    "a user without limits": ([line("*", 1), line("train", 0, item="exempt")], TRAIN, None),
    "a group without limits": ([line("@docker", 0, item="exempt"), line("*", 1)], TRAIN, None),
    "another user without limits": ([line("*", 1), line("guest", 0, item="exempt")], TRAIN, 1),
}


def test_the_wildcard_reaches_root_where_it_is_not_debian() -> None:
    """Only Debian's pam_limits leaves root out."""
    assert decided([line("*", 1), line("@root", 2)], ROOT, spares_root=False) == 2
    assert decided([line("*", 1)], ROOT, spares_root=False) == 1


def test_a_dash_that_loses_the_soft_limit_sets_no_hard_one() -> None:
    """pam_limits.c looks at the soft limit first, and goes no further."""
    assert decided([line("train", 1, "soft"), line("*", 2)], TRAIN, "hard") is None
    assert decided([line("train", 1, "hard"), line("*", 2)], TRAIN, "soft") == 2
    assert decided([line("train", 1, "hard"), line("*", 2)], TRAIN, "hard") == 1


@pytest.mark.parametrize("unread", ["files", "user", "nr_open"])
def test_nothing_is_written_from_half_a_picture(unread: str) -> None:
    """Each part of it is needed: without one, lines of ours would be lost."""
    assert is_known(states.state().limits)
    assert not is_known(states.state({"limits": {unread: None}}).limits)


@pytest.mark.parametrize("name", WINNERS)
def test_the_line_that_decides(name: str) -> None:
    """Rank goes before order, and order decides among equals."""
    lines, user, value = WINNERS[name]
    assert decided(lines, user) == value


def test_soft_and_hard_are_decided_apart() -> None:
    """A user's soft line leaves the hard limit to the wildcard."""
    lines = [line("train", 1, "soft"), line("*", 2, "hard")]
    assert (decided(lines, TRAIN), decided(lines, TRAIN, "hard")) == (1, 2)


LIMITS = st.one_of(st.just("unlimited"), st.integers(1024, 1 << 21))


@given(soft=LIMITS, hard=LIMITS, nofile=st.integers(1024, 1 << 20))
def test_our_file_says_no_more_than_what_is_lacking(
    soft: int | str, hard: int | str, nofile: int
) -> None:
    """A limit that is as high as wanted, or higher, is never written and so never lowered."""
    session = {"nofile": {"soft": soft, "hard": hard}}
    node = states.state({"limits": {"session": session, "files": []}})
    lines = own_lines(node.limits, LimitsWanted(nofile=nofile))
    low = [kind for kind, value in (("soft", soft), ("hard", hard)) if _below(value, nofile)]
    assert lines == {(kind, "nofile"): nofile for kind in low}


def _below(value: int | str, nofile: int) -> bool:
    return isinstance(value, int) and value < nofile


def test_a_high_hard_limit_is_left_alone() -> None:
    """Where only the soft limit lacks, only the soft limit is written."""
    node = states.state({"limits": {"session": {"nofile": {"soft": 1024, "hard": 524288}},
                                    "files": []}})  # fmt: skip
    assert own_lines(node.limits, LimitsWanted(nofile=131072)) == {("soft", "nofile"): 131072}


def test_what_our_file_says_already_stays() -> None:
    """A second reason to write the file does not lose what the first one wrote."""
    node = states.state({"limits": {"session": {"memlock": {"soft": 65536, "hard": 65536}}}})
    assert own_lines(node.limits, states.wanted().limits or LimitsWanted()) == {
        ("hard", "nofile"): 131072,
        ("soft", "nofile"): 131072,
        ("hard", "memlock"): "unlimited",
        ("soft", "memlock"): "unlimited",
    }


LOW = {"memlock": {"soft": 65536, "hard": 65536}}


def rewritten(lines: list[Line], **limits: object) -> dict[tuple[str, str], int | str]:
    """Return what our file would say anew of nofile, where only memlock gives a reason to write."""
    files = [each.model_dump() for each in lines]
    node = states.state({"limits": {"session": LOW, "files": files, **limits}})
    own = own_lines(node.limits, states.wanted().limits or LimitsWanted())
    assert own["soft", "memlock"] == own["hard", "memlock"] == "unlimited"
    return {key: value for key, value in own.items() if key[1] != "memlock"}


def test_lines_of_other_files_are_not_repeated() -> None:
    """A user's wildcard, and a name that a user wrote into our file, are not copied."""
    others = [line("*", 5000, path=LATE), line("*", 5000), line("bob", 5000, path=OWN_FILE)]
    assert rewritten(others) == {}


@pytest.mark.parametrize("kind", ["soft", "hard"])
def test_what_our_file_says_of_one_kind_stays_of_one_kind(kind: str) -> None:
    """A soft limit alone does not become a hard one, nor the other way round."""
    assert rewritten([line("*", 200000, kind, OWN_FILE)]) == {(kind, "nofile"): 200000}


def test_what_our_file_says_of_both_kinds_stays_of_both() -> None:
    """A dash is soft and hard."""
    both = {("soft", "nofile"): 200000, ("hard", "nofile"): 200000}
    assert rewritten([line("*", 200000, path=OWN_FILE)]) == both


def test_the_highest_of_what_our_file_says_stays() -> None:
    """A user's higher value for root in our file is not lowered to that of all users."""
    lines = [line("*", 18000, "soft", OWN_FILE), line("root", 200000, "soft", OWN_FILE)]
    assert rewritten(lines) == {("soft", "nofile"): 200000}
    assert rewritten(lines[::-1]) == {("soft", "nofile"): 200000}


def test_what_others_give_more_of_is_not_lowered() -> None:
    """root lacks a limit that `*` of others has more of, which does not count for root.

    Ours would be read later. These do not count: a line that the kernel does not grant, one of our
    own, and one that a later line for the same domain lowers.
    """
    lines = [
        line("*", 1048576),
        line("@ml", 1048576),
        line("root", 200000, "hard"),
        line("root", 100000, "hard", LATE),
        line("bob", 1 << 30),
        line("*", 262144, path=OWN_FILE),
        line("*", 1 << 40, item="memlock"),
    ]
    files = [each.model_dump() for each in lines]
    node = states.state({"limits": {"files": files, "nr_open": 1048576}})
    ours: OwnLines = {("soft", "nofile"): 131072, ("hard", "nofile"): 131072}
    assert higher(node.limits, {**ours, ("soft", "memlock"): "unlimited"}) == {
        (name, kind, "nofile") for name in ("*", "@ml") for kind in ("soft", "hard")
    }


def test_our_own_line_that_asks_for_too_much_is_taken_back() -> None:
    """A hard limit that sshd may not grant takes the soft one along: both become as wanted."""
    lines = [line("*", 1 << 30, "-", OWN_FILE, "memlock").model_dump()]
    session = {"memlock": {"soft": 65536, "hard": 8 << 20}}
    node = states.state({"limits": {"session": session, "files": lines}})
    own = own_lines(node.limits, LimitsWanted(memlock=8 << 20))
    assert own == {("soft", "memlock"): 8 << 20, ("hard", "memlock"): 8 << 20}


def test_a_limit_above_the_ceiling_in_our_file_is_repaired() -> None:
    """What is wanted stands in its place, where the kernel grants that."""
    lines = [line("*", 2097152, path=OWN_FILE)]
    assert set(rewritten(lines, nr_open=1048576).values()) == {131072}
    assert rewritten(lines, nr_open=65536) == {}


def test_a_converged_node_keeps_its_lines() -> None:
    """Writing the file anew would change nothing."""
    wanted = states.wanted().limits or LimitsWanted()
    found = states.state().limits
    ours = {(each.kind, each.item): each.value for each in found.files or ()}
    assert own_lines(found, wanted) == ours


def test_nothing_is_written_above_the_ceiling() -> None:
    """More open files than fs.nr_open are never asked for; the other limits still are."""
    session = {
        "nofile": {"soft": 1024, "hard": 4096},
        "memlock": {"soft": 65536, "hard": 65536},
    }
    node = states.state({"limits": {"session": session, "files": [], "nr_open": 65536}})
    wanted = states.wanted().limits or LimitsWanted()
    assert {item for _, item in own_lines(node.limits, wanted)} == {"memlock"}


def test_what_cannot_be_read_lacks_nothing() -> None:
    """An unreadable session is reported as unreadable; nothing is written for it."""
    node = states.state({"limits": {"session": None}})
    assert lacking(node.limits, states.wanted().limits or LimitsWanted(), "nofile") == []


@pytest.mark.parametrize(
    ("user", "names"),
    [
        (ROOT, ["*", "root"]),
        (TRAIN, ["*", "root", "train"]),
        (TRAIN.model_copy(update={"name": "John Doe"}), ["*", "root"]),
    ],
)
def test_which_users_our_file_names(user: User, names: list[str]) -> None:
    """The SSH user is named, so that no group's line comes between; limits.conf has no quotes."""
    assert domains(user) == names


def test_our_lines_are_where_pam_reads_them() -> None:
    """After limits.conf and files that sort before ours, and instead of our file's old lines."""
    before = [
        line("*", 1),
        line("*", 2, path=f"{CONF_D}/10-site.conf"),
        line("root", 3, path=OWN_FILE),
        line("*", 4, path=LATE),
    ]
    node = states.state({"limits": {"files": [each.model_dump() for each in before]}})
    lines = with_own(node.limits, {("soft", "nofile"): 9}, ["*", "root"])
    assert [(each.path, each.value) for each in lines] == [
        (CONF, 1),
        (f"{CONF_D}/10-site.conf", 2),
        (OWN_FILE, 9),
        (OWN_FILE, 9),
        (LATE, 4),
    ]


def test_a_limit_above_the_ceiling_is_not_repeated() -> None:
    """fs.nr_open was lowered and the inventory was not: no other reason to write repeats it."""
    node = states.state(
        {"limits": {"session": {"memlock": {"soft": 65536, "hard": 65536}}, "nr_open": 65536}}
    )
    lines = own_lines(node.limits, states.wanted().limits or LimitsWanted())
    assert {item for _, item in lines} == {"memlock"}

"""Root causes: each finding names the one that explains it, through any number of others."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gpu_node.drift.driver.subjects import KernelRelease, LoadedModule
from gpu_node.drift.engine.finding import Finding, Root
from gpu_node.drift.engine.registry import RULES
from gpu_node.drift.engine.roots import MOST_ROOTS, with_roots
from gpu_node.drift.engine.subject import (
    Logins,
    Path,
    Peers,
    Prefix,
    Subject,
    SystemPackages,
    about_one,
)
from gpu_node.drift.nccl.rules import LoadedLibrary

KERNEL = KernelRelease("5.4.0-1")
KEY = Path("/root/.ssh/id_ed25519")


def finding(rule: str, about: Subject) -> Finding:
    words = dict.fromkeys(("found", "wanted", "cause", "fix"), "x")
    if isinstance(about, Logins):
        words["found"] = about.found
    kind = {"severity": "error", "fixable": False, "step": rule.split(".")[0]}
    return Finding.model_validate(
        {"rule": rule, "subject": str(about), "about": about, **kind, **words}
    )


def roots(nodes: Mapping[str, list[Finding]]) -> dict[tuple[str, str], Root | None]:
    explained = with_roots({name: list(each) for name, each in nodes.items()})
    return {(name, each.rule): each.root for name, found in explained.items() for each in found}


def test_each_cause_is_a_rule() -> None:
    causes = {cause for rule in RULES.values() for cause in rule.causes}
    assert causes <= RULES.keys()
    assert len(causes) > 10


@pytest.mark.parametrize("rule", RULES)
def test_no_rule_explains_itself(rule: str) -> None:
    """Nor through others."""
    reached, todo = set(), [*RULES[rule].causes]
    while todo:
        reached.add(each := todo.pop())
        todo += [cause for cause in RULES[each].causes if cause not in reached]
    assert rule not in reached


def test_a_cause_is_listed_before_what_it_explains() -> None:
    """In one area, where both are on one node."""
    order = list(RULES)
    late = [
        (rule.id, cause)
        for rule in RULES.values()
        for cause in rule.causes
        if RULES[cause].area == rule.area and order.index(cause) > order.index(rule.id)
    ]
    assert late == []


def test_a_chain_is_followed_to_its_end() -> None:
    """Headers that are missing explain a module that is not built, and that one not loaded."""
    found = [
        finding("driver.headers-missing", KERNEL),
        finding("driver.module-not-built", KERNEL),
        finding("driver.not-loaded", LoadedModule("nvidia", "5.4.0-1")),
    ]
    root = Root(node="a", rule="driver.headers-missing", subject="5.4.0-1")
    assert list(roots({"a": found}).values()) == [None, root, root]


def test_a_chain_goes_from_node_to_node() -> None:
    """Node a has no key: node b cannot let it in, so that a cannot log in to b."""
    nodes = {
        "a": [finding("ssh.no-login", about_one("a", "b"))],
        "b": [finding("ssh.not-authorised", about_one("b", "a")), finding("ssh.key-missing", KEY)],
        "c": [finding("ssh.key-missing", KEY)],
    }
    let_in = Root(node="b", rule="ssh.not-authorised", subject="b")
    assert roots(nodes)["a", "ssh.no-login"] == let_in
    nodes["a"].append(finding("ssh.key-missing", KEY))
    own = Root(node="a", rule="ssh.key-missing", subject=str(KEY))
    assert roots(nodes)["a", "ssh.no-login"] == own
    assert roots(nodes)["b", "ssh.not-authorised"] == own


@pytest.mark.parametrize(
    ("rule", "about", "other"),
    [
        ("driver.module-not-built", KERNEL, finding("driver.headers-missing", KernelRelease("6"))),
        ("nccl.wheel-damaged", Prefix("/a"), finding("nccl.duplicate-wheels", Prefix("/b"))),
        ("ssh.no-login", about_one("a", "b"), finding("ssh.port-unset", about_one("a", "c"))),
        ("shm.too-small", Path("/dev/shm"), finding("driver.not-loaded", KERNEL)),
    ],
)
def test_a_finding_about_something_else_explains_nothing(
    rule: str, about: Subject, other: Finding
) -> None:
    assert roots({"a": [other, finding(rule, about)]})["a", rule] is None


def test_a_finding_may_name_its_causes() -> None:
    """torch without an rpath loads the package's file: a repair of wheels changes nothing."""
    wheels = finding("nccl.duplicate-wheels", Prefix("/a"))
    root = Root(node="a", rule="nccl.duplicate-wheels", subject="/a")
    for causes, expected in ((("nccl.duplicate-wheels",), root), (("nccl.shadowed",), None)):
        loaded = finding("nccl.loaded-mismatch", LoadedLibrary("/a"))
        loaded = loaded.model_copy(update={"explained_by": causes})
        assert roots({"a": [wheels, loaded]})["a", "nccl.loaded-mismatch"] == expected


def test_a_login_may_name_that_it_has_no_cause() -> None:
    """As another user the key of this node would be of no use."""
    missing = finding("ssh.key-missing", KEY)
    login = finding("ssh.no-login", about_one("a", "b")).model_copy(update={"explained_by": ()})
    assert roots({"a": [missing, login]})["a", "ssh.no-login"] is None


@pytest.mark.parametrize("names", [("libnccl2",), ("libnccl-dev",)])
def test_a_finding_may_explain_nothing(names: tuple[str, ...]) -> None:
    """Of the packages, only the one that has the library: headers change nothing."""
    package = finding("nccl.package-mismatch", SystemPackages(names))
    package = package.model_copy(update={"explains": "all" if "libnccl2" in names else "none"})
    loaded = finding("nccl.loaded-mismatch", LoadedLibrary("/a", "system"))
    found = roots({"a": [package, loaded]})["a", "nccl.loaded-mismatch"]
    assert (found is not None) == ("libnccl2" in names)


def test_a_key_that_is_open_explains_logins_from_its_node_alone() -> None:
    """And a folder that is open those of other nodes to this one."""
    for explains, expected in (("here", ["a", None]), ("peers", [None, "a"])):
        open_ = finding("ssh.permissions", KEY).model_copy(update={"explains": explains})
        nodes = {
            "a": [open_, finding("ssh.no-login", about_one("a", "b"))],
            "b": [finding("ssh.no-login", about_one("b", "a"))],
        }
        found = roots(nodes)
        named = [found[name, "ssh.no-login"] for name in ("a", "b")]
        assert [each.node if each else None for each in named] == expected


def test_a_finding_about_another_node_explains_nothing() -> None:
    """Node b does not let c in: why a cannot log in to b, is not known."""
    nodes = {
        "a": [finding("ssh.no-login", about_one("a", "b"))],
        "b": [finding("ssh.not-authorised", about_one("b", "c"))],
    }
    assert roots(nodes)["a", "ssh.no-login"] is None


def test_a_cause_that_is_not_in_the_report_is_no_root() -> None:
    assert roots({"a": [finding("ssh.not-authorised", about_one("a", "b"))]})[
        "a", "ssh.not-authorised"
    ] is (None)


def explained(nodes: Mapping[str, list[Finding]]) -> list[tuple[str, Root | None]]:
    """What a cannot log in to, and why."""
    return [
        (each.found, each.root)
        for each in with_roots({name: list(each) for name, each in nodes.items()})["a"]
        if each.rule == "ssh.no-login"
    ]


def refused(*peers: str) -> Logins:
    return Logins("a", (Peers("refused", peers),))


def test_a_finding_about_several_peers_is_one_for_each_root() -> None:
    """a does not know the keys of b and c; d does not let it in, and of e nothing is known."""
    nodes = {
        "a": [
            finding("ssh.no-login", refused("b", "c", "d", "e")),
            finding("ssh.unknown-host-key", refused("b", "c")),
        ],
        "d": [finding("ssh.not-authorised", about_one("d", "a"))],
    }
    assert explained(nodes) == [
        ("2 nodes, b, c: refused", Root(node="a", rule="ssh.unknown-host-key", subject="a")),
        ("d: refused", Root(node="d", rule="ssh.not-authorised", subject="d")),
        ("e: refused", None),
    ]


@pytest.mark.parametrize("count", [MOST_ROOTS, MOST_ROOTS + 1])
def test_many_roots_on_other_nodes_are_one_finding(count: int) -> None:
    """The first of them stands for all: a login in each of 1,000 nodes has 1,000 roots."""
    peers = [f"n{number}" for number in range(count)]
    nodes = {
        "a": [finding("ssh.no-login", refused(*peers))],
        **{peer: [finding("ssh.not-authorised", about_one(peer, "a"))] for peer in peers},
    }
    (first, root), *others = explained(nodes)
    assert root == Root(node="n0", rule="ssh.not-authorised", subject="n0")
    if count > MOST_ROOTS:
        assert (first, others) == (f"{count} nodes, n[0-{count - 1}]: refused", [])
    else:
        assert (first, len(others)) == ("n0: refused", count - 1)

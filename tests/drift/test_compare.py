"""Node against node: what must be equal, what may differ by model, what may differ anyhow."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_node.drift.engine.check import check
from gpu_node.drift.engine.compare import Difference, differences, drifting, unlikes
from gpu_node.drift.engine.fact import Fact
from gpu_node.drift.engine.nodes import Judged, Nodes
from gpu_node.drift.engine.shown_facts import FACTS
from gpu_node.facts.node import NodeState, state_of
from gpu_node.inventories.fields.kinds import IFNAME
from gpu_node.inventories.wanted import NodeWanted
from tests.drift import states

MODELS = {"a100-01": "A100", "a100-02": "A100", "v100-01": "V100"}
# An inventory entry that names an address and nothing else.
NOTHING: dict[str, Any] = dict.fromkeys(states.BASE["wanted"]) | {"address": "192.0.2.10"}
SMALL = {"shm": {"usage": {"size": 67108864}}}
OTHER_OS = {"toolchain": {"os": "Debian GNU/Linux 12 (bookworm)", "kernel": "6.1.0-18-amd64"}}
GPU = {"name": "Tesla V100-PCIE-32GB", "memory": 32768, "capability": "7.0"}
V100 = {"driver": {"smi": {"gpus": [GPU] * 2}}}
UNREAD = {"shm": {"usage": None}}


def found_between(
    nodes: dict[str, NodeState],
    models: dict[str, str] = MODELS,
    wanted: dict[str, NodeWanted] | None = None,
) -> tuple[list[Difference], dict[str, set[str]]]:
    """Return the differences, and for each fact the nodes that are unlike the others.

    No other rule has a finding. Without `wanted` the inventory names the GPU models alone.
    """
    expected = wanted or {name: _of_model(models.get(name)) for name in nodes}
    judged = {name: Judged(node, expected[name], Nodes()) for name, node in nodes.items()}
    found = unlikes(judged, dict.fromkeys(nodes, ()))
    unlike = {
        fact: {
            name for name, several in found.items() if fact in {each.fact.name for each in several}
        }
        for fact in drifting(found)
    }
    return differences(judged, drifting(found)), unlike


def _of_model(model: str | None) -> NodeWanted:
    return states.wanted(NOTHING | ({"gpu_model": model, "gpu_count": 2} if model else {}))


def compare(**changes: dict[str, Any]) -> dict[str, tuple[str, bool]]:
    """Return fact -> (class, drift) for nodes given as a100_01={...}."""
    nodes = {name.replace("_", "-"): states.state(change) for name, change in changes.items()}
    found, _ = found_between(nodes)
    return {each.fact: (each.comparison, each.drift) for each in found}


def test_equal_nodes_do_not_differ() -> None:
    """The control."""
    assert compare(a100_01={}, a100_02={}, v100_01={}) == {}


def test_one_node_differs_from_no_other() -> None:
    """A node alone has nothing to be compared with, readable or not."""
    assert compare(a100_01=UNREAD) == {}


def test_what_must_be_equal() -> None:
    """A limit that differs is drift, whatever the models."""
    low = {"limits": {"session": {"nofile": {"soft": 1024}}}}
    assert compare(a100_01={}, v100_01=low) == {"limits.nofile": ("must-equal", True)}


def test_what_may_differ_by_model() -> None:
    """An A100's /dev/shm need not be a V100's."""
    assert compare(a100_01={}, v100_01=SMALL) == {"shm.size": ("per-model", False)}


def test_what_may_not_differ_within_a_model() -> None:
    """Two A100 nodes must agree."""
    assert compare(a100_01={}, a100_02=SMALL) == {"shm.size": ("per-model", True)}


def test_nodes_are_compared_within_their_model_only() -> None:
    """Two equal A100 nodes beside another V100, or beside one that gives no answer, are alike."""
    assert compare(a100_01={}, a100_02={}, v100_01=SMALL) == {"shm.size": ("per-model", False)}
    assert compare(a100_01={}, a100_02={}, v100_01=UNREAD) == {"shm.size": ("per-model", False)}


def test_what_may_differ_by_host() -> None:
    """The operating system is shown, and is no drift."""
    assert compare(a100_01={}, a100_02=OTHER_OS) == {
        "toolchain.os": ("per-host", False),
        "toolchain.kernel": ("per-host", False),
    }


def test_unknown_equals_nothing() -> None:
    """What could not be read differs from every value."""
    assert compare(a100_01={}, a100_02=UNREAD) == {"shm.size": ("per-model", True)}


def test_unknown_does_not_equal_unknown() -> None:
    """Two nodes that both say nothing are not alike."""
    assert compare(a100_01=UNREAD, a100_02=UNREAD) == {"shm.size": ("per-model", True)}
    nodes = {"a100-01": states.state(UNREAD), "a100-02": states.state(UNREAD)}
    (found,), unlike = found_between(nodes)
    assert found.values == {"a100-01": "unreadable", "a100-02": "unreadable"}
    assert unlike == {"shm.size": {"a100-01", "a100-02"}}


def test_an_a100_and_a_v100_that_are_each_right() -> None:
    """Nodes of two groups, each as its inventory wants it, differ only where they may."""
    larger = {
        "shm": {
            "usage": {"size": 17179869184},
            "fstab": [{"line": 3, "fstype": "tmpfs", "options": "size=16G", "size": "16G"}],
            "memory": 541165879296,
        },
        "limits": {"nr_open": 1073741816},
        **OTHER_OS,
    }
    a100, v100 = states.state(larger), states.state(V100)
    wanted = {
        "a100-01": states.wanted({"shm_size": "16G"}),
        "v100-01": states.wanted({"gpu_model": "V100"}),
    }
    assert check(a100, wanted["a100-01"]) == []
    assert check(v100, wanted["v100-01"]) == []
    found, _ = found_between({"a100-01": a100, "v100-01": v100}, MODELS, wanted)
    assert {each.fact for each in found} == {
        "driver.gpus",
        "shm.size",
        "shm.fstab",
        "limits.nr_open",
        "toolchain.os",
        "toolchain.kernel",
    }
    drift = {each.fact for each in found if each.drift}
    assert not drift, "`same` is for none of these: they differ on nodes that are each right"


RIGHT: dict[str, dict[str, Any]] = {
    "a higher hard limit": {"limits": {"session": {"nofile": {"hard": 524288}}}},
    "a higher soft limit": {"limits": {"session": {"nofile": {"soft": 524288, "hard": 524288}}}},
    "another hard limit of the stack": {"limits": {"session": {"stack": {"hard": 16777216}}}},
    "a newer cmake": {
        "toolchain": {
            "cmake": {
                "found": [
                    {
                        "path": "/usr/bin/cmake",
                        "real": "/usr/bin/cmake",
                        "version": "3.31.6",
                        "output": "cmake version 3.31.6",
                    }
                ]
            }
        }
    },
}


@pytest.mark.parametrize("name", RIGHT)
def test_nodes_that_are_each_right_and_that_no_deploy_would_change(name: str) -> None:
    """More than wanted is right, so it is no drift that only one node has more."""
    change = RIGHT[name]
    assert check(states.state(change), states.wanted()) == []
    wanted = dict.fromkeys(("a100-01", "v100-01"), states.wanted())
    nodes = {"a100-01": states.state(), "v100-01": states.state(change)}
    found, _ = found_between(nodes, MODELS, wanted)
    assert found and not any(each.drift for each in found)
    # Where the inventory does not name the value, the same nodes differ.
    free, _ = found_between(nodes)
    assert all(each.drift for each in free if each.comparison == "must-equal")


def test_a_wanted_value_that_is_found_settles_no_unreadable_value() -> None:
    """A value that could not be read is drift even where no rule found fault with it."""
    wanted = dict.fromkeys(("a100-01", "a100-02"), states.wanted())
    nodes = {"a100-01": states.state(), "a100-02": states.state(UNREAD)}
    _, unlike = found_between(nodes, MODELS, wanted)
    assert unlike == {"shm.size": {"a100-02"}}


@pytest.mark.parametrize(
    ("sizes", "unlike"),
    [
        pytest.param({"a100-01": 8, "a100-02": None}, {"a100-02"}, id="only an unread value"),
        pytest.param({"a100-01": None, "a100-02": None}, {"a100-01", "a100-02"}, id="nothing read"),
        pytest.param({"a100-01": 8, "a100-02": 16}, {"a100-01", "a100-02"}, id="no majority"),
        pytest.param({"a100-01": 8, "a100-02": 16, "a100-03": 8}, {"a100-02"}, id="a majority"),
        pytest.param(
            {"a100-01": 8, "a100-02": 16, "a100-03": 8, "a100-04": 4},
            {"a100-01", "a100-02", "a100-03", "a100-04"},
            id="half is no majority",
        ),
        pytest.param(
            {"a100-01": 8, "a100-02": 16, "a100-03": None},
            {"a100-01", "a100-02", "a100-03"},
            id="two values and an unread one",
        ),
        pytest.param(
            {"a100-01": 8, "a100-02": 8, "a100-03": None, "a100-04": None},
            {"a100-03", "a100-04"},
            id="of the values that were read",
        ),
        pytest.param({"a100-01": 8, "v100-01": 16, "v100-02": None}, {"v100-02"}, id="by model"),
        pytest.param(
            {"a100-01": 8, "a100-02": 16, "v100-01": None}, {"a100-01", "a100-02"}, id="apart"
        ),
        pytest.param({"a100-01": 8, "v100-01": None}, set(), id="no node to compare with"),
    ],
)
def test_on_which_nodes_the_finding_is(sizes: dict[str, int | None], unlike: set[str]) -> None:
    """On those outside the majority, on all where there is none, on each that is unreadable."""
    usages = {name: None if size is None else {"size": size << 30} for name, size in sizes.items()}
    nodes = {name: states.state({"shm": {"usage": usage}}) for name, usage in usages.items()}
    models = {name: name.split("-")[0].upper() for name in nodes}
    (found,), apart = found_between(nodes, models)
    assert (found.drift, apart.get("shm.size", set())) == (bool(unlike), unlike)


def test_what_is_right_on_the_nodes_that_could_be_read_is_no_difference() -> None:
    """Two sizes that are each as wanted do not differ for a third that cannot be read."""
    nodes = {
        "a100-01": states.state(),
        "a100-02": states.state({"shm": {"usage": {"size": 17179869184}}}),
        "a100-03": states.state(UNREAD),
    }
    _, unlike = found_between(nodes, {}, dict.fromkeys(nodes, states.wanted()))
    assert unlike == {"shm.size": {"a100-03"}}


def test_a_value_that_only_one_node_wants_settles_nothing() -> None:
    """What only one node's inventory entry names is compared as if none did."""
    higher = {
        "shm": {"usage": {"size": 17179869184}},
        "limits": {"session": {"nofile": {"hard": 524288}}},
    }
    nodes = {"a100-01": states.state(), "a100-02": states.state(higher)}
    wanted = {"a100-01": states.wanted(), "a100-02": states.wanted({"shm_size": None})}
    _, unlike = found_between(nodes, MODELS, wanted)
    assert unlike == {"shm.size": {"a100-01", "a100-02"}}


@pytest.mark.parametrize(
    ("gone", "facts"),
    [
        ("shm_", {"shm.size", "shm.fstab", "shm.mode"}),
        ("limits_", {"limits.nofile", "limits.memlock", "limits.stack"}),
        ("limits_memlock", {"limits.memlock"}),
        ("toolchain_", {"toolchain.cmake"}),
    ],
)
def test_what_is_not_managed_is_not_settled(gone: str, facts: set[str]) -> None:
    """An area, or an item of it, that no inventory entry names leaves its facts to be compared."""
    keys = [key for key in states.BASE["wanted"] if key.startswith(gone)]
    assert _managed(states.wanted()) - _managed(states.wanted(dict.fromkeys(keys))) == facts


def _managed(wanted: NodeWanted) -> set[str]:
    return {fact.name for fact in FACTS if fact.is_managed(wanted)}


VALUES = {
    "driver.version": "535.154.05",
    "driver.next_boot": "535.154.05",
    "driver.gpus": "2 x A100-PCIE-40GB",
    "driver.cuda": "works",
    "driver.upgrade": "none",
    "shm.size": "8G",
    "shm.fstab": "8G",
    "shm.mode": "1777 0:0",
    "limits.nofile": "131072/131072",
    "limits.memlock": "unlimited/unlimited",
    "limits.stack": "8M/unlimited",
    "limits.nr_open": "1048576",
    "toolchain.cmake": "3.25.2",
    "toolchain.cmake_path": "/usr/local/bin/cmake",
    "toolchain.cuda": "12.1",
    "toolchain.gcc": "4.8.5",
    "toolchain.python": "3.10",
    "toolchain.python3": "3.6",
    "nccl.torch": "2.1.2+cu121",
    "nccl.loaded": "2.18.1",
    "nccl.loaded_by": "DT_RPATH: nvidia/nccl/lib",
    "network.addresses": "eno1 192.0.2.10/24",
    "network.ifname": "=eno1",
    "nccl.package": "2.18.1-1+cuda12.1",
    "ssh.logins": "4 of 4",
    "workspace.files": "20000 files, 1G, by size and time",
    "host.memory": "252G",
    "host.timezone": "UTC+08:00",
    "toolchain.os": "CentOS Linux 7 (Core)",
    "toolchain.kernel": "3.10.0-1160.el7",
}
DIS = "/root/miniconda3/envs/dis"


def _in(environment: object) -> dict[str, Any]:
    """A node with one Python environment, which is the healthy one with a change, or unreadable."""
    return {"nccl": {"environments": {DIS: environment}}}


TREE = {"exists": True, "files": 20000, "bytes": 1 << 30, "digest": "1"}
WHOLE = {**_in({}), **states.MESH, "workspace": {"trees": {"/data/ws": TREE}}}
BROKEN = {"path": "/opt/b/cmake", "real": "/opt/b/cmake", "version": None, "output": "nothing"}
GONE = "9, which is not installed"
SPECIAL = [
    ("driver.version", {"driver": {"loaded": {"nvidia": ""}}}, "not loaded"),
    ("driver.version", {"driver": {"loaded": {"nvidia": ""}, "library": ""}}, "none"),
    ("driver.version", {"driver": {"library": None}}, None),
    ("driver.next_boot", {"driver": {"boot": {"grubby": "vmlinuz-9"}}}, GONE),
    ("driver.next_boot", {"driver": {"boot": {"grubby": None, "closed": "/grub.cfg"}}}, "unknown"),
    ("driver.gpus", {"driver": {"smi": {"gpus": []}}}, "none"),
    ("driver.upgrade", {"driver": {"upgrade": {"candidate": "535.183.01-1"}}}, "535.183.01-1"),
    ("driver.upgrade", {"driver": {"upgrade": {"candidate": "535.183.01-1", "held": ["a"]}}},
     "535.183.01-1 (held)"),
    ("driver.upgrade", {"driver": {"upgrade": {"unknown": "WHY"}}}, "unknown: WHY"),
    ("driver.upgrade", {"driver": {"upgrade": {"package": ""}}}, "not a package"),
    ("driver.cuda", {"driver": {"cuda_init": {"code": 999}}}, "error 999"),
    ("driver.cuda", {"driver": {"cuda_init": {"code": None, "problem": "no libcuda.so.1"}}},
     "no libcuda.so.1"),
    ("driver.cuda", {"driver": {"cuda_init": {"code": None, "untried": "WHY"}}}, "not tried: WHY"),
    ("driver.cuda", {"driver": {"cuda_init": {"code": None, "lacks": "device"}}}, "no nvidia_uvm"),
    ("driver.cuda", {"driver": {"cuda_init": {"code": None, "lacks": "module", "helped": True}}},
     "not tried: it would load nvidia_uvm"),
    ("shm.size", {"shm": {"mount": {"layers": 0, "fstype": ""}}}, "not mounted"),
    ("shm.size", {"shm": {"mount": None}}, None),
    ("workspace.files", {"workspace": {"trees": {"/data/ws": {"exists": False}}}}, "none"),
    ("workspace.files", {"workspace": {"trees": {"/data/ws": None}}}, None),
    ("shm.fstab", {"shm": {"fstab": []}}, "no line"),
    ("shm.fstab", {"shm": {"fstab": [{"line": 1, "fstype": "tmpfs", "options": "", "size": ""}]}},
     "no size"),
    ("shm.fstab", {"shm": {"fstab": None}}, None),
    ("shm.mode", {"shm": {"mode": None}}, None),
    ("limits.nofile", {"limits": {"session": None}}, None),
    ("limits.memlock", {"limits": {"session": {"memlock": {"soft": 65536}}}}, "64K/unlimited"),
    ("limits.nr_open", {"limits": {"nr_open": None}}, None),
    *(
        (f"nccl.{name}", {"nccl": {"environments": {DIS: None}, "absent": [DIS]}}, "missing")
        for name in ("torch", "loaded", "loaded_by")
    ),
    ("toolchain.cmake", {"toolchain": {"cmake": {"found": []}}}, "none"),
    ("toolchain.cmake_path", {"toolchain": {"cmake": {"found": []}}}, "none"),
    ("toolchain.cmake", {"toolchain": {"cmake": {"found": [BROKEN]}}}, "broken"),
    ("toolchain.cmake", {"toolchain": {"cmake": None}}, None),
    ("toolchain.cmake_path", {"toolchain": {"cmake": None}}, None),
    ("toolchain.os", {"toolchain": {"os": None}}, None),
    ("nccl.torch", _in(None), None),
    ("nccl.torch", _in({"torch": None}), "none"),
    ("nccl.loaded", _in(None), None),
    ("nccl.loaded", _in({"torch": None}), "none"),
    ("nccl.loaded", _in({"loaded": {"version": 21403}}), "2.14.3"),
    ("nccl.loaded", _in({"loaded": {"version": None, "problem": "file too short"}}), "broken"),
    ("nccl.loaded", _in({"loaded": None, "loads": {"path": None}}), "2.18.1"),
    ("nccl.loaded", _in({"loaded": None, "loads": {"path": None}, "torch": {
        "version": "2.1.0a0", "nccl": None}}), "built in"),
    ("nccl.loaded", _in({"loaded": None, "loads": {"path": None, "problem": "none"}}), "broken"),
    ("network.addresses", {"network": {"addresses": None}}, None),
    ("network.addresses", {"network": {"addresses": []}}, "none"),
    ("network.ifname", {"env": {"launcher": None}}, None),
    ("network.ifname", {"env": {"launcher": {IFNAME: ""}}}, "=eno1 in nccl.conf"),
    ("network.ifname", {"env": {"launcher": {IFNAME: ""}, "conf": []}}, "not set"),
    ("nccl.loaded_by", _in(None), None),
    ("nccl.loaded_by", _in({"loads": None}), "none"),
    ("nccl.loaded_by", _in({"loads": {"path": "/opt/x/libnccl.so.2", "reason": "LD_PRELOAD"}}),
     "LD_PRELOAD: /opt/x"),
    ("nccl.package", {"nccl": {"packages": None}}, None),
    ("nccl.package", {"nccl": {"packages": []}}, "none"),
]  # fmt: skip


def _value(name: str, node: NodeState) -> str | None:
    return next(fact.value(node) for fact in FACTS if fact.name == name)


def test_each_fact_has_a_value() -> None:
    """What the table shows of a healthy node."""
    missing = {fact.name for fact in FACTS} ^ VALUES.keys()
    assert not missing, "add to VALUES what is shown of these, or remove them there"
    assert {fact.name: fact.value(states.state(WHOLE)) for fact in FACTS} == VALUES


@pytest.mark.parametrize(("name", "change", "text"), SPECIAL)
def test_what_is_shown_of_an_odd_node(name: str, change: dict[str, Any], text: str | None) -> None:
    """None, and only None, stands for what could not be read."""
    assert _value(name, states.state(change)) == text


def test_no_facts_about_a_driver_that_is_absent() -> None:
    """What a reboot or an upgrade would do to it; one that cannot be read may be there."""
    names = {"driver.next_boot", "driver.cuda", "driver.upgrade"}
    absent = {"loaded": {"nvidia": ""}, "library": "", "dkms": {"sources": [], "builds": []}}
    for change, asked in ((absent, set()), ({**absent, "library": None}, names), ({}, names)):
        node = states.state({"driver": change})
        assert {fact.name for fact in FACTS if fact.is_asked(node)} & names == asked


BLANK = state_of(
    {"nccl": {"environments": {DIS: None}}, "workspace": {"trees": {"/data/ws": None}}}
)


# The Python of an environment that cannot be read has no finding beside that.
ASKED = [fact for fact in FACTS if fact.is_asked(BLANK)]


@pytest.mark.parametrize("models", [MODELS, {}], ids=["models", "no models"])
@pytest.mark.parametrize("fact", ASKED, ids=lambda fact: fact.name)
def test_any_fact_may_be_unreadable_on_one_node(fact: Fact, models: dict[str, str]) -> None:
    """It is listed with the other nodes' values, and is drift where those nodes must agree."""
    nodes = {"a100-01": states.state(WHOLE), "a100-02": BLANK, "v100-01": states.state(WHOLE)}
    found, unlike = found_between(nodes, models)
    difference = {each.fact: each for each in found}[fact.name]
    known = VALUES.get(fact.name, "missing in VALUES")
    assert difference.values == {"a100-01": known, "a100-02": "unreadable", "v100-01": known}
    assert difference.drift == (fact.comparison != "per-host")
    assert fact.row.follows or unlike.get(fact.name, {"a100-02"}) == {"a100-02"}


def test_nodes_of_which_nothing_is_known() -> None:
    """Every fact that nodes must agree on is drift, on both."""
    found, unlike = found_between({"a100-01": BLANK, "a100-02": BLANK})
    assert [each.fact for each in found] == [fact.name for fact in ASKED]
    assert not any(each.is_known for each in found)
    assert all(
        unlike[each.name] == {"a100-01", "a100-02"}
        for each in ASKED
        if each.name in unlike and not each.row.follows
    )
    assert [each.drift for each in found] == [fact.comparison != "per-host" for fact in ASKED]


def test_a_node_that_is_not_asked_is_not_compared() -> None:
    """Without an environment in the inventory there is no torch to differ."""
    nodes = {"a100-01": states.state(WHOLE), "a100-02": states.state()}
    assert found_between(nodes) == ([], {})


def test_nodes_that_load_different_nccls() -> None:
    """One version on all nodes of a job, whatever each one's own torch says."""
    other = {"torch": {"nccl": "2.20.5"}, "loaded": {"version": 22005}}
    nodes = {"a100-01": states.state(WHOLE), "a100-02": states.state(_in(other))}
    found, unlike = found_between(nodes)
    assert [each.fact for each in found] == ["nccl.loaded"]
    assert unlike == {"nccl.loaded": {"a100-01", "a100-02"}}


def test_one_finding_about_torch_and_the_nccl_that_it_brings() -> None:
    """Another torch loads another NCCL: both are drift, and the finding is about torch."""
    other = {"torch": {"version": "2.3.0", "nccl": "2.20.5"}, "loaded": {"version": 22005}}
    nodes = {"a100-01": states.state(WHOLE), "a100-02": states.state(_in(other))}
    judged = {name: Judged(node, states.wanted(NOTHING), Nodes()) for name, node in nodes.items()}
    found = unlikes(judged, dict.fromkeys(nodes, ()))
    assert {each.fact.name for several in found.values() for each in several} == {"nccl.torch"}
    drift = {each.fact: each.drift for each in differences(judged, drifting(found))}
    assert drift["nccl.torch"] and drift["nccl.loaded"]


def test_an_empty_value_was_read() -> None:
    """Only None stands for what could not be read."""
    nodes = {"a100-01": states.state(), "a100-02": states.state({"toolchain": {"os": ""}})}
    (difference,), _ = found_between(nodes)
    assert difference.values["a100-02"] == ""

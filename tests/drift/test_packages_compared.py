"""Packages of Python environments between nodes: the report lists what differs, up to a limit."""

from __future__ import annotations

from gpu_node.drift.report.seen import Seen
from tests.drift import states
from tests.drift.reports import drawn, report

ENVIRONMENT = "/opt/dis"
# About as many as an environment may have.
THOUSANDS = 9_900


def _seen(**packages: str) -> Seen:
    """A node whose environment has these packages beside the healthy one's."""
    environments = {ENVIRONMENT: {"packages": packages}}
    return states.seen({"nccl": {"environments": environments}}, nccl_environments=[ENVIRONMENT])


def _drift(nodes: dict[str, Seen]) -> dict[str, dict[str, str]]:
    return {
        each.fact.removeprefix("toolchain.package:"): each.values
        for each in report(nodes).differences
        if each.fact.startswith("toolchain.package:") and each.drift
    }


def test_another_version_and_none() -> None:
    """Both are drift; what is equal is left out, and torch's NCCL is a fact of its own."""
    nodes = {
        "a100-01": _seen(bitsandbytes="0.42.0", datasets="2.18.0"),
        "v100-01": _seen(bitsandbytes="0.41.3", **{"nvidia-nccl-cu11": "2.14.3"}),
    }
    assert _drift(nodes) == {
        "bitsandbytes": {"a100-01": "0.42.0", "v100-01": "0.41.3"},
        "datasets": {"a100-01": "2.18.0", "v100-01": "none"},
    }
    assert report(nodes).exit_code() == 2
    text = drawn(nodes, 80)
    assert "toolchain.package:bitsandbytes  0.42.0" in text


def test_environments_are_compared_in_their_order() -> None:
    """Each with its counterpart, whatever the folders are called; once where all are the same."""
    found = _drift(
        {
            "a100-01": _several(("1.0", "2.0"), ("2.0", "2.0"), ("2.0", "2.0")),
            "v100-01": _several(("1.0", "2.0"), ("1.0", "2.0"), ("2.0", "2.0"), folder="/srv/b"),
        }
    )
    assert found == {"six": {"a100-01": "1.0, 2.0, 2.0", "v100-01": "1.0, 1.0, 2.0"}}


def _several(*versions: tuple[str, str], folder: str = "/opt/a") -> Seen:
    """A node with several environments, each with a six and an xxhash."""
    paths = [f"{folder}{number}" for number in range(len(versions))]
    found = {
        path: {"packages": {"six": six, "xxhash": xxhash}}
        for path, (six, xxhash) in zip(paths, versions, strict=True)
    }
    return states.seen({"nccl": {"environments": found}}, nccl_environments=paths)


def test_an_environment_that_could_not_be_read() -> None:
    """One finding says that, and not a line for each package of the others."""
    lost = states.seen(
        {
            "nccl": {"environments": {ENVIRONMENT: None}},
            "unreadable": [
                {"area": "nccl", "section": f"nccl.environment:{ENVIRONMENT}", "reason": "gone"}
            ],
        },
        nccl_environments=[ENVIRONMENT],
    )
    nodes = {"a100-01": _seen(six="1.16.0"), "v100-01": lost}
    assert _drift(nodes) == {}
    assert report(nodes).exit_code() == 1


def test_environments_that_have_nothing_in_common() -> None:
    """JSON lists every package; a finding names those of jobs, and one has the number of others."""
    named = {"deepspeed": "0.14.0", "nvidia-cublas-cu12": "12.1.3.1", "pyarrow": "15.0.2"}
    nodes = {
        "a100-01": _seen(**named, **{f"package{number:02}": "1.0" for number in range(25)}),
        "v100-01": _seen(),
    }
    assert len(_drift(nodes)) == 28
    found = [each.subject for each in report(nodes).hosts["a100-01"].findings]
    assert found == [*named, "25 other packages"]
    text = drawn(nodes, 120)
    assert "25 other packages: other versions than on the other nodes" in text
    assert text.count("warning  toolchain.package-differs  a100-01, v100-01") == 4


def _found(*folders: str, torch: str = "2.1.2+cu121", **packages: str) -> Seen:
    """A node whose inventory names no environment, and that has these; the first has packages."""
    first = {"torch": {"version": torch}, "packages": packages}
    environments = {each: first if each == folders[0] else {} for each in folders}
    how = dict.fromkeys(folders, "conda")
    return states.seen({"nccl": {"environments": environments, "discovered": how, "packages": []}})


def test_environments_that_are_not_named_are_compared_by_folder() -> None:
    """One that only one node has is no difference; the same folder with other packages is."""
    nodes = {
        "a100-01": _found("/opt/dis", "/opt/old", deepspeed="0.14.0"),
        "v100-01": _found("/opt/dis", torch="2.3.0+cu121", deepspeed="0.12.6"),
    }
    found = report(nodes)
    assert _drift(nodes) == {
        "deepspeed in /opt/dis": {"a100-01": "0.14.0", "v100-01": "0.12.6"},
    }
    rules = {(each.rule, each.subject) for each in found.hosts["v100-01"].findings}
    assert ("toolchain.package-differs", "deepspeed in /opt/dis") in rules
    assert ("nccl.differs", "nccl.torch:/opt/dis") in rules
    assert not any(each.fixable for host in found.hosts.values() for each in host.findings)
    [fix] = [
        each.fix for each in found.hosts["v100-01"].findings if each.subject.startswith("deepspeed")
    ]
    assert "nccl.environments" in fix


def test_one_environment_of_each_node_is_compared_wherever_it_is() -> None:
    """Two servers that were set up apart: the folders differ, the job is the same."""
    nodes = {
        "a100-01": _found("/opt/dis", deepspeed="0.14.0"),
        "v100-01": _found("/root/miniconda3", deepspeed="0.12.6"),
    }
    assert _drift(nodes) == {"deepspeed": {"a100-01": "0.14.0", "v100-01": "0.12.6"}}


def test_what_is_pinned_is_judged_by_its_pin() -> None:
    """Two builds of the pinned version are no difference."""
    nodes = {
        name: Seen(
            states.wanted(
                {"nccl_environments": [ENVIRONMENT], "toolchain_packages": {"xformers": "0.0.23"}}
            ),
            seen.state,
        )
        for name, seen in {
            "a100-01": _seen(xformers="0.0.23+cu118"),
            "v100-01": _seen(xformers="0.0.23"),
        }.items()
    }
    assert _drift(nodes) == {}


def _claimed(beginning: str = "a", count: int = THOUSANDS) -> dict[str, str]:
    return {f"{beginning}{number:05}": "1" for number in range(count)}


def _differing(nodes: dict[str, Seen]) -> list[str]:
    found = [each for each in report(nodes).differences if each.drift]
    return [each.fact.removeprefix("toolchain.package:") for each in found]


def _packages_of(nodes: dict[str, Seen], name: str) -> list[str]:
    found = report(nodes).hosts[name].findings
    return [each.subject for each in found if each.rule == "toolchain.package-differs"]


def test_thousands_of_packages_that_one_node_has_are_a_number() -> None:
    """They are no rows for all nodes, and the rows of the others stay before them."""
    nodes = {f"n{number}": _seen(common="1", numpy="1.26.4") for number in range(5)}
    nodes |= {"liar": _seen(**_claimed(), common="1", numpy="1.26.4")}
    nodes |= {"odd": _seen(common="2", numpy="1.24.0", zstd="1.5")}
    found = _drift(nodes)
    assert {"common", "numpy", "zstd"} <= found.keys()
    assert len(found) <= 1003
    counted = {each.fact: each.values for each in report(nodes).differences}
    assert counted["toolchain.packages_not_compared"]["liar"] == str(THOUSANDS + 3 - len(found))
    assert _packages_of(nodes, "liar") == [f"{THOUSANDS} other packages"]
    assert _packages_of(nodes, "odd") == ["numpy", "2 other packages"]
    text = drawn(nodes, 200)
    assert "toolchain.package:common" in text and "toolchain.package:numpy" in text


def test_thousands_of_packages_on_one_of_two_nodes() -> None:
    """No majority says which node is odd: names like those of jobs do not hide a job's package."""
    nodes = {
        "a100-01": _seen(**_claimed("nvidia-a"), numpy="1.26.4"),
        "v100-01": _seen(numpy="1.24.0"),
    }
    assert len(_drift(nodes)) <= 1001
    for name in nodes:
        *named, last = _packages_of(nodes, name)
        assert "numpy" in named
        assert last == f"{THOUSANDS + 1 - 10} other packages"
    [more] = [
        each
        for each in report(nodes).hosts["v100-01"].findings
        if each.subject.endswith("other packages")
    ]
    assert "the first ones in `differences`, all in `facts`" in more.fix


def test_thousands_of_packages_take_no_row_of_another_node() -> None:
    """Of those that few nodes have, each node has a part, whatever the others claim."""
    nodes = {f"n{number}": _seen() for number in range(8)}
    nodes |= {f"liar{number}": _seen(**_claimed(f"a{number}-", 3000)) for number in range(3)}
    own = {f"z{number}": "1" for number in range(100)}
    nodes |= {f"own{number}": _seen(**own) for number in range(4)}
    found = _drift(nodes)
    assert own.keys() <= found.keys()
    assert len(found) <= 1000
    assert _packages_of(nodes, "own0") == ["100 other packages"]


def test_folders_that_are_compared_one_by_one_have_the_same_bound() -> None:
    nodes = {
        "a100-01": _found("/opt/dis", "/opt/old", numpy="1.26.4", **_claimed()),
        "v100-01": _found("/opt/dis", "/opt/old", numpy="1.24.0"),
    }
    found = _differing(nodes)
    assert "numpy in /opt/dis" in found
    assert "toolchain.packages_not_compared:/opt/dis" in found
    assert len(found) <= 1002

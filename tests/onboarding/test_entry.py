"""What a newcomer's entry is, and why it is refused, beside the cluster that it comes to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_node.drift.driver.target import models_by_id
from gpu_node.drift.tables import short_model
from gpu_node.inventories.schema import load
from gpu_node.onboarding.entry import Proposal, composed, entered, proposed
from gpu_node.onboarding.errors import Refusal
from gpu_node.onboarding.journal import Journal

FILE = """\
cluster: c
defaults:
  ssh: {user: root}
  network: auto
groups:
  a100:
    gpu: {model: A100, count: 2}
  v100:
    gpu: {model: V100, count: 2}  # both boxes
  odd:
    gpu: {model: Foo 9000}
    ssh: {user: zhang, port: 2222, sudo: true}
    network: bond0
  big:
    gpu: {model: V100, count: 8}
  spare:
hosts:
  # The first.
  a100-01: {address: 192.0.2.4, group: a100}
  v100-01: {address: "2001:db8::5", group: v100}
"""
V100 = ["0x1db6", "0x1db6"]
SMI = ["Tesla V100-PCIE-32GB", "Tesla V100-PCIE-32GB"]
H100 = ["0x2330"] * 8
FOO = ["NVIDIA Foo 9000 PRO"]


def ask(folder: Path, gpus: list[str], file: str = FILE, **changes: Any) -> Proposal:
    """The proposal for v100-02 at 192.0.2.6, and it fits into the file."""
    path = folder / "site.yml"
    path.write_text(file)
    interface = changes.pop("interface", None)
    reached = {"name": "v100-02", "address": "192.0.2.6", "user": "root", "port": 22, **changes}
    proposal = proposed(load(path), Journal(**reached), gpus, interface)
    text = composed(path, file, proposal)
    assert path.read_text() == file
    path.write_text(text)
    host = load(path).hosts[proposal.name]
    assert (host.group, host.wanted.address) == (proposal.group, proposal.address)
    assert host.wanted.gpu is None or host.wanted.gpu.count == len(gpus)
    return proposal


def refused(folder: Path, gpus: list[str], **changes: Any) -> str:
    with pytest.raises(Refusal) as error:
        ask(folder, gpus, **changes)
    return str(error.value).replace(str(folder), "FOLDER")


@pytest.mark.parametrize("gpus", [V100, SMI], ids=["by the bus", "by nvidia-smi"])
def test_the_group_by_the_gpus(gpus: list[str], tmp_path: Path) -> None:
    """The one of this model and count; nothing is written that the levels above say."""
    proposal = ask(tmp_path, gpus, interface="eno1")
    assert proposal == Proposal(
        "v100-02",
        "192.0.2.6",
        "v100",
        None,
        {"address": "192.0.2.6", "group": "v100"},
        ("group v100: its gpu.model is V100, the node has 2 x Tesla V100-PCIE-32GB",),
    )
    line = "  v100-02: {address: 192.0.2.6, group: v100}\n"
    assert (tmp_path / "site.yml").read_text() == FILE + line


def test_the_group_by_the_number_of_gpus(tmp_path: Path) -> None:
    assert ask(tmp_path, V100 * 4).group == "big"
    assert ask(tmp_path, V100 * 4).entry == {"address": "192.0.2.6", "group": "big"}


def test_the_group_by_the_longer_name(tmp_path: Path) -> None:
    file = FILE.replace("model: V100, count: 8", "model: V100-PCIE-32GB, count: 2")
    assert ask(tmp_path, V100, file).group == "big"


def test_two_groups_for_it(tmp_path: Path) -> None:
    """With a third number of GPUs neither is closer."""
    error = refused(tmp_path, V100 * 2)
    assert error == (
        "found 4 x Tesla V100-PCIE-32GB (the groups v100, big are all for them); "
        "allowed: one group; "
    ) + ("next: name one: --group")


def test_another_number_of_gpus(tmp_path: Path) -> None:
    """It is the host's own; the group stays as it is."""
    proposal = ask(tmp_path, V100 * 2, group="v100")
    assert proposal.entry["gpu"] == {"count": 4}
    assert proposal.reasons == (
        "group v100, as requested: the node has 4 x Tesla V100-PCIE-32GB",
        "gpu count 4: for this host alone, because group v100 has 2 for its count",
    )


def test_a_group_that_says_half_of_it(tmp_path: Path) -> None:
    """The host says the other half: no file loads without."""
    assert ask(tmp_path, FOO * 3).entry["gpu"] == {"count": 3}
    file = FILE.replace("  network: auto", "  gpu: {count: 2}")
    assert ask(tmp_path, H100, file, group="spare").entry["gpu"] == {"model": "H100", "count": 8}
    assert ask(tmp_path, H100[:2], file, group="spare").entry["gpu"] == {"model": "H100"}


def test_a_group_that_is_new(tmp_path: Path) -> None:
    proposal = ask(tmp_path, H100, name="n1")
    assert (proposal.group, proposal.new_group) == ("h100", {"gpu": {"model": "H100", "count": 8}})
    assert proposal.reasons == (
        "group h100 is new: none of a100, v100, odd, big, spare is for 8 x NVIDIA H100 80GB HBM3",
    )
    text = (tmp_path / "site.yml").read_text()
    assert "  spare:\n  h100:\n    gpu: {model: H100, count: 8}\nhosts:\n" in text
    assert ask(tmp_path, H100, name="n1", group="h100").new_group == proposal.new_group


def test_a_name_of_several_words(tmp_path: Path) -> None:
    assert ask(tmp_path, ["NVIDIA GeForce RTX 3090 Ti"]).group == "rtx-3090-ti"


def test_a_group_of_the_models_name_that_says_no_gpu(tmp_path: Path) -> None:
    proposal = ask(tmp_path, H100, FILE.replace("  spare:", "  h100:"))
    assert (proposal.group, proposal.new_group) == ("h100", None)


def test_how_it_was_reached(tmp_path: Path) -> None:
    """Only what its group does not say; another user than root has sudo."""
    assert ask(tmp_path, V100, user="li", port=2200).entry["ssh"] == {
        "user": "li",
        "port": 2200,
        "sudo": True,
    }
    assert "ssh" not in ask(tmp_path, FOO, user="zhang", port=2222).entry
    assert ask(tmp_path, FOO, user="root").entry["ssh"] == {"user": "root", "port": 22}


def test_the_interface_where_the_group_names_another(tmp_path: Path) -> None:
    entry = ask(tmp_path, FOO, interface="eno1").entry
    assert entry["network"] == "eno1"
    assert "network" not in ask(tmp_path, FOO, interface="bond0").entry
    assert "network" not in ask(tmp_path, FOO).entry


def test_a_gpu_that_the_inventory_alone_knows(tmp_path: Path) -> None:
    assert ask(tmp_path, FOO).group == "odd"


def test_a_server_that_only_launches(tmp_path: Path) -> None:
    """Its group has `gpu: none`; one with GPUs is none of its servers."""
    file = FILE.replace("  spare:\n", "  spare: {gpu: none}\n")
    proposal = ask(tmp_path, [], file, group="spare")
    assert (proposal.group, proposal.new_group, "gpu" in proposal.entry) == ("spare", None, False)
    assert proposal.reasons[0] == "group spare, as requested: its nodes only launch jobs"
    assert "its gpu.model is none" in refused(tmp_path, V100, file=file, group="spare")
    assert "--group with a group of gpu: none" in refused(tmp_path, [], file=file)


def test_unknown_gpus(tmp_path: Path) -> None:
    """The next step is one that the inventory's file alone needs, as another test takes it."""
    groups = "and name it: --group a100, v100, odd, big, spare"
    assert refused(tmp_path, ["0xFFF0"]) == (
        "found 1 x 10de:fff0 (no group is for them, and no table has this PCI id); next: give a "
        f"group of the inventory gpu: {{model: NAME, count: 1}}, {groups}"
    )
    assert refused(tmp_path, ["NVIDIA Bar 1"]) == (
        "found 1 x NVIDIA Bar 1 (no group is for them, and no table has this model); next: give a "
        f"group of the inventory gpu: {{model: NVIDIA Bar 1, count: 1}}, {groups}"
    )


def test_an_unknown_gpu_in_a_group_that_has_it_now(tmp_path: Path) -> None:
    """By its name without a word, by its PCI id with --group."""
    file = FILE.replace("  spare:\n", "  spare: {gpu: {model: NVIDIA Bar 1, count: 1}}\n")
    assert ask(tmp_path, ["NVIDIA Bar 1"], file).group == "spare"
    assert ask(tmp_path, ["0xFFF0"], file, group="spare").group == "spare"


def test_unknown_gpus_in_a_group_that_was_asked_for(tmp_path: Path) -> None:
    proposal = ask(tmp_path, ["0xfff0"] * 2, group="v100")
    assert proposal.entry == {"address": "192.0.2.6", "group": "v100"}
    assert proposal.reasons == ("group v100, as requested: no table has its GPUs (2 x 10de:fff0)",)
    assert ask(tmp_path, ["NVIDIA Bar 1"], group="spare").group == "spare"


REFUSED: dict[str, tuple[list[str], dict[str, Any], str]] = {
    "no GPU": ([], {}, "found no NVIDIA GPU on its PCI bus; allowed: "),
    "two models": (
        ["0x1db6", "0x20f1"],
        {},
        "found GPUs of 2 models (1 x Tesla V100-PCIE-32GB, 1 x NVIDIA "
        "A100-PCIE-40GB); allowed: one ",
    ),
    "a known one beside an unknown one": (
        ["0x1db6", "0xfff0"],
        {"group": "v100"},
        "found GPUs of 2 models (1 x Tesla V100-PCIE-32GB, 1 x 10de:fff0); allowed: "
        "one model a node",
    ),
    "a group for other GPUs": (
        V100,
        {"group": "a100"},
        "--group: found 'a100' (its gpu.model is A100, and the node has 2 x Tesla V100-PCIE-32GB); "
        "allowed: a group for V100, or none",
    ),
    "no such group": (
        V100,
        {"group": "v10"},
        "--group: found 'v10' (no such group, did you mean v100?); "
        "allowed: a100, v100, odd, big, spare",
    ),
    "a name with another address": (
        V100,
        {"name": "v100-01"},
        "found '192.0.2.6' (FOLDER/site.yml has v100-01 with the address 2001:db8::5); allowed: ",
    ),
    "an address of another, spelled otherwise": (
        V100,
        {"address": "2001:DB8:0:0::5"},
        "found '2001:DB8:0:0::5' (FOLDER/site.yml has it as v100-01); allowed: a "
        "separate address, or ",
    ),
    "there already": (
        V100,
        {"name": "v100-01", "address": "2001:db8::5"},
        "found 'v100-01' (FOLDER/site.yml has it already); allowed: another name",
    ),
    "a group's name": (
        V100,
        {"name": "big"},
        "found 'big' (a group of FOLDER/site.yml has this name); ",
    ),
    "the new group's name": (
        H100,
        {"name": "h100"},
        "found 'h100' (the group for its GPUs would have this name); allowed: "
        "another name, or --group ",
    ),
    "pyinfra's word": (V100, {"name": "all"}, "found 'all' (pyinfra needs this name); allowed: "),
    "the file's name": (
        V100,
        {"name": "site"},
        "found 'site' (pyinfra needs this name); allowed: ",
    ),
    "no name": (V100, {"name": "V100_02"}, "name: found 'V100_02'; allowed: a host name: "),
    "no address": (V100, {"address": "192.0.2"}, "address: found '192.0.2'; allowed: an IP "),
    "a user that is none": (V100, {"user": "li;"}, "FOLDER/site.yml:21: hosts.v100-02.ssh.user: "),
}


@pytest.mark.parametrize(("gpus", "changes", "error"), REFUSED.values(), ids=REFUSED)
def test_refused(gpus: list[str], changes: dict[str, Any], error: str, tmp_path: Path) -> None:
    """What was found, where, and what is allowed; the file is as it was."""
    assert refused(tmp_path, gpus, **changes).startswith(error)
    assert (tmp_path / "site.yml").read_text() == FILE


def test_a_group_of_the_models_name_for_other_gpus(tmp_path: Path) -> None:
    error = refused(tmp_path, H100, file=FILE.replace("  spare:", "  h100: {gpu: {model: H800}}"))
    assert error.startswith(
        "found 8 x NVIDIA H100 80GB HBM3 (no group is for them, and h100 is for H800)"
    )


def test_a_host_of_the_new_groups_name(tmp_path: Path) -> None:
    error = refused(tmp_path, H100, file=FILE.replace("v100-01:", "h100:"))
    assert error.startswith(
        "found 8 x NVIDIA H100 80GB HBM3 (no group can be called h100, as a host is)"
    )


def test_a_file_that_cannot_be_edited(tmp_path: Path) -> None:
    """The error has the lines to add manually."""
    file = "cluster: c\ngroups: {v100: }\nhosts:\n  ? a\n  : {address: 192.0.2.1, group: v100}\n"
    error = refused(tmp_path, V100, file=file, group="v100", user="root")
    assert error.startswith("FOLDER/site.yml:")
    assert error.endswith(
        "; next: add manually, under hosts: "
        "v100-02: {address: 192.0.2.6, group: v100, ssh: {user: root}}"
    )


def test_a_member(tmp_path: Path) -> None:
    path = tmp_path / "site.yml"
    path.write_text(FILE)
    cluster = load(path)
    assert entered(cluster, "v100-01", "2001:db8:0::5")
    assert not entered(cluster, "v100-02", "192.0.2.6")


def test_every_gpu_of_the_tables_has_a_group(tmp_path: Path) -> None:
    """V100 and A100 find theirs; each other one with a known PCI id gets a group that loads."""
    path = tmp_path / "site.yml"
    path.write_text(FILE)
    cluster = load(path)
    for device, name in models_by_id().items():
        given = Journal(name="new", address="192.0.2.6", user="root", port=22)
        proposal = proposed(cluster, given, [device] * 2)
        new = proposal.new_group
        model = new["gpu"]["model"] if new else proposal.group.upper()  # type: ignore[index]
        assert model == short_model(name)
        composed(path, FILE, proposal)

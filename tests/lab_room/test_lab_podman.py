"""The output of podman 3 and 4 is parsed alike."""

from gpu_node.lab import nodes, podman, roster

LISTED = """[
  {"Names": ["gpu-node-lab-a100-01"], "State": "running",
   "Labels": {"gpu-node.lab": "1", "gpu-node.lab.repository": "HERE"}},
  {"Names": ["gpu-node-lab-v100-01"], "State": "exited", "Labels": null},
  {"Names": ["gpu-node-lab-v100-02"], "State": "Running",
   "Labels": {"gpu-node.lab.repository": "/elsewhere"}}
]""".replace("HERE", str(roster.REPOSITORY))


def test_states_and_labels_are_read() -> None:
    found = podman.parse_containers(LISTED)
    assert [container.running for container in found.values()] == [True, False, True]
    assert found["gpu-node-lab-v100-01"].labels == {}


def test_no_containers_is_an_empty_answer() -> None:
    assert podman.parse_containers("") == podman.parse_containers("null\n") == {}


def test_a_state_says_when_the_node_is_another_clones() -> None:
    found = podman.parse_containers(LISTED)
    assert nodes.state(found, "a100-01") == "running"
    assert nodes.state(found, "v100-02") == "running (/elsewhere)"
    assert nodes.state(found, "mirror") == "absent"

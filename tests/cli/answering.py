"""The `gpu-node` command with one node that answers at once: python -m tests.cli.answering ..."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import patch

from gpu_node.cli.main import main
from gpu_node.facts.ask.gather import Answer
from tests.drift import states

# A node with a fixable finding, and with words that few encodings take.
SYSTEM = "Größe 日本"
CHANGE = {"shm": {"usage": {"size": 67108864}}, "toolchain": {"os": SYSTEM}}


def gathered(answer: Answer | None = None) -> Callable[..., dict[str, Answer]]:
    """Return what stands for `gather`."""
    given = answer or Answer(states.BASE["wanted"], states.state(CHANGE), reached=True)
    return lambda *_, **__: {"a100-01": given}


def run() -> None:
    """Run the command that sys.argv has."""
    with patch("gpu_node.cli.asking.gather", gathered()):
        main()


if __name__ == "__main__":
    run()

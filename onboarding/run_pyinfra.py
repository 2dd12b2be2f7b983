"""Runs deploys over all nodes of a site, as stages of an onboarding or a removal."""

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from gpu_node.deploy.engine.pyinfra_process import WHOLE, run_pyinfra
from gpu_node.history.store import StoreError, identity, opened
from gpu_node.onboarding.errors import Stopped
from gpu_node.onboarding.inventory_files import Site


class Unfinished(Stopped):
    """A run that did not end as converged; `nodes` are those that failed, as far as it knew."""

    def __init__(self, code: int, nodes: Sequence[str]) -> None:
        super().__init__(f"pyinfra ended with {code}; its output above gives the reason")
        self.nodes = nodes


def pyinfra(site: Site, deploy: Path = WHOLE, **data: str) -> None:
    """Run a deploy over all nodes of a site, and keep that in the history.

    Unfinished where it did not end as converged.
    """
    options = [word for key, value in data.items() for word in ("--data", f"{key}={value}")]
    ended = run_pyinfra(str(site.inventory), deploy, options)
    if ended.recorded:
        words = dict.fromkeys(ended.recorded, "by gpu-node onboard or remove")
        with suppress(StoreError), opened(making=True) as store:
            name = identity(str(site.inventory))
            store.keep_run(name, int(time.time()), "deploy", ended.run, words)
    if ended.code != 0:
        raise Unfinished(ended.code, ended.failed)

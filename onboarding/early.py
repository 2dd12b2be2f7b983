"""What can be refused before a server is contacted: its group, and a file that takes no entry."""

from __future__ import annotations

from inventories.cluster import Cluster
from onboarding.entry import check_place, composed, expected
from onboarding.journal import Journal
from onboarding.site import Site


def refuse_early(site: Site, cluster: Cluster, said: Journal) -> None:
    """Raise Refusal where a server could not be entered by what was said of it, whatever it is.

    After the first contact this machine's key is on the server, and its host key pinned here.
    """
    text = site.text()
    trial = expected(cluster, said.name, said.address, said.user, said.port, said.group)
    if trial is None:
        check_place(cluster, text, said.name, said.address)
    else:
        composed(site.file, text, trial)

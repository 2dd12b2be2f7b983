"""Operations on NCCL.

pyinfra's pip.packages takes a version for installed by pip's own word, which is wrong here: all
NCCL wheels own one file, so the right name may stand over the wrong library, or over none.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from pyinfra import host
from pyinfra.api import StringCommand, operation

from deploy.scripts import script
from facts.nccl import ASKED, Environment, Nccl, code


@operation()
def wheels(
    environment: str, keep: str, remove: Sequence[str] = (), allow_disruption: bool = False
) -> Generator[StringCommand, None, None]:
    """
    Leave one NCCL wheel in a Python environment, its library equal to its RECORD.

    + environment: the folder, eg ``/opt/conda/envs/dis``
    + keep: as pip is asked for it, eg ``nvidia-nccl-cu12==2.18.1``
    + remove: names of the wheels that go, eg ``nvidia-nccl-cu11``
    + allow_disruption: even while a process has a libnccl mapped or holds a GPU

    **Example:**

    .. code:: python

        nccl.wheels(environment="/opt/conda/envs/dis", keep="nvidia-nccl-cu12==2.18.1")
    """
    found = host.get_fact(Nccl, environments=environment, deep=True)
    if not remove and _is_whole(found["environments"].get(environment), keep):
        host.noop(f"{environment} has {keep}, whole")
        return
    yield script(
        "wheels",
        prefix=environment,
        keep=keep,
        remove=" ".join(remove),
        asked=ASKED,
        allow="yes" if allow_disruption else "no",
    )


def _is_whole(found: object, keep: str) -> bool:
    """Whether that wheel alone is installed, and the library is the file of its RECORD."""
    if found is None:
        return False
    environment = Environment.model_validate(found)
    name, _, version = keep.partition("==")
    file = environment.file
    return (
        file is not None
        and [(wheel.name, wheel.version, wheel.sha256, wheel.size) for wheel in environment.wheels]
        == [(name, version, file.sha256, file.size)]
        and file.version == code(version)
    )

"""A fork of the server is a new run of the program: nothing of a run is made by the imports."""

import subprocess
import sys

from tests.fork_server import REPOSITORY

CODE = """
from tests.fork_server import _programs
_programs()
from deploy import replacement
assert not replacement.run.cache_info().currsize
"""


def test_each_fork_is_a_run_of_its_own() -> None:
    """Two runs of one name would put what they replace into one folder on the node."""
    done = subprocess.run([sys.executable, "-c", CODE], cwd=REPOSITORY, check=False)
    assert done.returncode == 0

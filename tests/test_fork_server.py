"""Each fork of the server is a separate run: the imports create no state of a run."""

import subprocess
import sys

from tests.fork_server import REPOSITORY

CODE = """
from tests.fork_server import _programs
_programs()
from gpu_node.deploy.files import replace as replacement
assert not replacement.run.cache_info().currsize
"""


def test_imports_do_not_name_the_run() -> None:
    """Two runs with one name would share a backup folder on the node."""
    done = subprocess.run([sys.executable, "-c", CODE], cwd=REPOSITORY, check=False)
    assert done.returncode == 0

"""Environment: our blocks in ~/.bashrc set what a launcher's shell must have."""

from pyinfra.api import deploy

from gpu_node.deploy.engine.plan import Plan
from gpu_node.deploy.engine.shared import is_writer
from gpu_node.deploy.env import operations as env
from gpu_node.deploy.files import operations as files
from gpu_node.drift.engine.subject import Shell
from gpu_node.drift.env import rules
from gpu_node.drift.env.bashrc import are_placed, env_file_text, is_network_home
from gpu_node.drift.network import rules as network
from gpu_node.drift.network.ifname import managed, wanted_blocks
from gpu_node.facts.env.start_files import ENV_FILE

_IFNAME = (network.ifname_missing, network.ifname_wrong, network.launcher_override)


@deploy("Environment")
def converge(plan: Plan) -> None:
    """Repair what the rules found in the training user's shell."""
    values, user = managed(plan.state, plan.wanted), plan.state.env.user
    if values is None or user is None or not _is_asked(plan):
        return
    path, blocks = f"{user.home}/.bashrc", wanted_blocks(plan.state, values)
    if is_network_home(plan.state.env):
        # First the file that it reads, which each node has for itself.
        text, check = env_file_text(values), env.BASH_CHECK
        files.write(name=f"Write {ENV_FILE}", path=ENV_FILE, content=text, check=check)
        if are_placed(plan.state.env, blocks):
            return
        if not is_writer(plan, path, lambda state: state.env.places, _is_asked):
            return
    # pyinfra shows one heading for all nodes, and homes differ.
    env.blocks(name="Write ~/.bashrc", path=path, user=user.name, top=blocks.top, end=blocks.end)


def _is_asked(plan: Plan) -> bool:
    return bool(plan.subjects(Shell, *_IFNAME)) or plan.repairs(rules.not_set, rules.block_outdated)

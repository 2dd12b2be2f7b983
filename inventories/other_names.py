"""Keys of an inventory by the names that other programs give them, or in another place."""

from __future__ import annotations

import re

from pydantic import BaseModel

from gpu_node.inventories.errors import KeyPath
from gpu_node.inventories.fields.variables import is_secret
from gpu_node.inventories.keys import flat_key, leaf_paths

# How a controller logs in: keys of `ssh` in a cluster file, and the data that pyinfra reads.
SSH_KEYS = {
    "user": "ssh_user",
    "port": "ssh_port",
    "sudo": "_sudo",
    "key": "ssh_key",
    "known_hosts": "ssh_known_hosts_file",
}
# Names of Ansible, ssh_config, Slurm, Docker Compose and rsync, without signs.
_OTHERS = {
    "address": "addr host hostname ip ipaddress nodeaddr",
    "cluster": "clustername name",
    "count": "gpus number",
    "env": "environment",
    "from": "src",
    "group": "partition",
    "groups": "partitions",
    "hosts": "machines nodes servers",
    "interface": "iface ifname nic",
    "key": "identity identityfile keyfile privatekey privatekeyfile",
    "known_hosts": "userknownhostsfile",
    "model": "type",
    "path": "dest destination dst target",
    "size": "sizelimit",
    "source": "src",
    "sudo": "become",
    "url": "http https httpproxy httpsproxy",
    "user": "login remoteuser username",
    "version": "branch",
}
# Names of no single key, and what to do about them.
_OF_NO_KEY = {
    r"proxy_?(jump|command)|bastion|jump_?(host)?|.*_common_args": (
        "write it in ~/.ssh/config of this machine, see docs/how-to/jump-host.md"
    ),
    "gres": "write, for example, gpu: {model: A100, count: 8}",
}


def of_no_key(name: str) -> str:
    """Return what to do about what is no key of an inventory; empty for any other name."""
    if is_secret(name):
        return "remove it: no password is stored in an inventory"
    found = (then for words, then in _OF_NO_KEY.items() if re.fullmatch(words, name.lower()))
    return next(found, "")


def login_key(name: str) -> str:
    """Return pyinfra's key for a name that a login has with Ansible or ssh; empty for another."""
    word = re.sub("^(ansible_)?(ssh_)?", "", name.lower())
    keys = {"address": "ssh_hostname", **SSH_KEYS} if word != name else {}
    word = re.sub("[-_. ]", "", word)
    return next((each for key, each in keys.items() if word in _names((key,))), "")


def places_of(model: type[BaseModel], path: KeyPath) -> list[KeyPath]:
    """Return the keys that a key of another place or name can be, the nearest first."""
    name = re.sub(r"^(ansible_)?(ssh_)?|[-_. ]", "", str(path[-1]).lower())
    places = [each for each in leaf_paths(model) if name in _names(each)]
    # Of a key in a section, another section has none.
    beside = [each for each in places if each[:-1] == path[:-1]]
    return beside if beside or path[1:] else sorted(places, key=len)


def _names(path: KeyPath) -> list[str]:
    """Return the names of a key, without signs: size, shmsize, and what other programs call it."""
    flat = [flat_key(path[at:]).replace("_", "") for at in range(len(path))]
    return [*flat, *_OTHERS.get(str(path[-1]), "").split()]

"""Settings of the system in a cluster file: of the kernel, its modules, and services."""

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from gpu_node.inventories.errors import Wrong

_SETTING = re.compile(r"(fs|kernel|net|user|vm)(\.[a-z0-9_-]+)+")
# What one write does, and none takes back; and what has the kernel stop the node.
_ACTIONS = re.compile(r"vm\.(drop_caches|compact_memory|stat_refresh)|net\..*\.flush")
_FOR_GOOD = re.compile(r"kernel\.(modules_disabled|kexec_load_disabled)")
_STOPS = re.compile(r"(kernel|vm)\.(.*_panic|panic_on_.*|panic_print)")
_NUMBERS = re.compile(r"-?[0-9]{1,19}( -?[0-9]{1,19}){0,31}")
_MODULE = re.compile(r"[a-z0-9][a-z0-9_-]{0,54}")
_UNIT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,120}(?<!@)")
_OTHER_UNIT = re.compile(r".*\.(socket|target|timer|mount|path|slice|scope|swap|device|automount)")


def _setting(name: object) -> str:
    if not isinstance(name, str) or not _SETTING.fullmatch(name):
        raise ValueError("not a setting of fs, kernel, net, user or vm, such as vm.max_map_count")
    for pattern, why in (
        (_ACTIONS, "it is an action, and no setting"),
        (_FOR_GOOD, "only a reboot takes it back"),
        (_STOPS, "with it the kernel stops the node, and all jobs there"),
    ):
        if pattern.fullmatch(name):
            raise Wrong(why, "remove it")
    return name


def _numbers(value: object) -> str:
    words = value if isinstance(value, list | tuple) else [value]
    if not all(isinstance(each, int | str) and not isinstance(each, bool) for each in words):
        raise ValueError("")
    text = " ".join(" ".join(map(str, words)).split())
    if not _NUMBERS.fullmatch(text):
        raise ValueError("")
    return text


def _service(name: object) -> str:
    if isinstance(name, str) and name.endswith(".service"):
        raise Wrong("it has one name", f"write {name.removesuffix('.service')}")
    if not isinstance(name, str) or not _UNIT.fullmatch(name) or _OTHER_UNIT.fullmatch(name):
        raise ValueError("not the name of a service")
    return name


def _module(name: object) -> str:
    if not isinstance(name, str) or not _MODULE.fullmatch(name):
        raise ValueError("not the name of a module")
    if "-" in name:
        raise Wrong("the kernel has _ in its names", f"write {name.replace('-', '_')}")
    if name == "nouveau" or re.fullmatch("nvidia(_uvm|_modeset|_drm)?", name):
        raise Wrong("the driver's step loads the module", "remove it; set driver: {version: ...}")
    return name


def _true(value: object) -> bool:
    if value is not True:
        raise ValueError("")
    return value


Sysctls = Annotated[
    dict[
        Annotated[str, BeforeValidator(_setting)],
        Annotated[str, BeforeValidator(_numbers, json_schema_input_type=int | str | list[int])],
    ],
    Field(
        examples=[{"vm.max_map_count": 262144}],
        description="settings with a number, or a list of numbers, such as "
        "{vm.max_map_count: 262144}",
        title="settings of the kernel (sysctl), now and at each boot",
    ),
]
Services = Annotated[
    dict[Annotated[str, BeforeValidator(_service)], Literal["enabled"]],
    Field(
        examples=[{"nvidia-persistenced": "enabled"}],
        description="services with the word enabled, such as {nvidia-persistenced: enabled}",
        title="services of systemd that run, now and at each boot",
    ),
]
Modules = Annotated[
    dict[Annotated[str, BeforeValidator(_module)], Annotated[bool, BeforeValidator(_true)]],
    Field(
        examples=[{"nvidia_peermem": True}],
        description="modules with true, such as {nvidia_peermem: true}",
        title="modules of the kernel that are loaded, now and at each boot",
    ),
]

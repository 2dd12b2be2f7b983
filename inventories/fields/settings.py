"""Settings of the system in a cluster file: of the kernel, its modules, and services."""

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from gpu_node.inventories.errors import Wrong

_NUMBERS = re.compile(r"-?[0-9]{1,19}( -?[0-9]{1,19}){0,31}")
_REFUSED = {
    re.compile(
        r"vm\.(drop_caches|compact_memory|stat_refresh)|net\..*\.flush"
    ): "it is an action, no setting",
    re.compile(r"kernel\.(modules_disabled|kexec_load_disabled)"): "only a reboot takes it back",
    re.compile(
        r"(kernel|vm)\.(.*_panic|panic_.*)"
    ): "with it the kernel stops the node, and all jobs there",
    re.compile(r"nouveau|nvidia(_uvm|_modeset|_drm)?"): "driver: {version: ...} decides about it",
}


def _named(pattern: re.Pattern[str], what: str) -> BeforeValidator:
    def check(name: object) -> str:
        if not isinstance(name, str) or not pattern.fullmatch(name):
            raise ValueError(f"not {what}")
        if why := next((_REFUSED[each] for each in _REFUSED if each.fullmatch(name)), ""):
            raise Wrong(why, "remove it")
        return name

    return BeforeValidator(check)


def _numbers(value: object) -> str:
    words = value if isinstance(value, list | tuple) else [value]
    text = " ".join(" ".join(map(str, words)).split())
    if not _NUMBERS.fullmatch(text):
        raise ValueError("")
    return text


def _true(value: object) -> bool:
    if value is not True:
        raise ValueError("")
    return value


_SETTING = _named(
    re.compile(r"(fs|kernel|net|user|vm)(\.[a-z0-9_-]+)+"),
    "a setting of fs, kernel, net, user or vm, such as vm.max_map_count",
)
_MODULE = _named(
    re.compile(r"[a-z0-9][a-z0-9_]{0,54}"), "the name of a module, in which the kernel has _ for -"
)
_SERVICE = _named(
    re.compile(
        r"(?!.*\.(service|socket|target|timer|mount|path|slice)$)[A-Za-z0-9][A-Za-z0-9_.@-]{0,120}(?<!@)"
    ),
    "the name of a service, without .service",
)
Sysctls = Annotated[
    dict[
        Annotated[str, _SETTING],
        Annotated[str, BeforeValidator(_numbers, json_schema_input_type=int | str | list[int])],
    ],
    Field(
        examples=[{"vm.max_map_count": 262144}],
        description="settings with numbers, such as {vm.max_map_count: 262144}",
        title="settings of the kernel (sysctl), now and at each boot",
    ),
]
Modules = Annotated[
    dict[Annotated[str, _MODULE], Annotated[bool, BeforeValidator(_true)]],
    Field(
        examples=[{"nvidia_peermem": True}],
        description="modules with true, such as {nvidia_peermem: true}",
        title="modules of the kernel that are loaded, now and at each boot",
    ),
]
Services = Annotated[
    dict[Annotated[str, _SERVICE], Literal["enabled"]],
    Field(
        examples=[{"nvidia-persistenced": "enabled"}],
        description="services with the word enabled, such as {nvidia-persistenced: enabled}",
        title="services of systemd that run, now and at each boot",
    ),
]

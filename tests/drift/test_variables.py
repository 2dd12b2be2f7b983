"""What is known of a variable's name and value, row by row of the table and beside it."""

from __future__ import annotations

import pytest

from gpu_node.drift.env.variables import is_debug, outdated
from gpu_node.inventories.nccl_variables import (
    is_unknown,
    is_unknown_in_conf,
    meant_in_vain,
    misread,
    suggestion,
    table,
)

CLASSES = {
    *("system", "debug", "undocumented", "plugin", "binary-only", "documented-but-gone"),
    *("removed", "torch", "torch-old-name", "torch-removed", "never-existed", "not-runtime"),
    *("launcher", "other"),
}


def test_the_table_is_whole() -> None:
    """Every row has a class that is known, and its name once."""
    assert len(table()) == 426
    assert {row.kind for row in table().values()} == CLASSES


@pytest.mark.parametrize(
    "name",
    [
        *("NCCL_DEBUG", "NCCL_VERSION", "TORCH_FR_BUFFER_SIZE", "X_NCCL"),
        *("OMP_NUM_TEAMS", "OMP_NUM_THREADS", "BLAS_NUM_THREADS", "LIBRARY_PATH", "HOME"),
        *("HCCL_SOCKET_IFNAME", "CUDA_PATH", "HIP_VISIBLE_DEVICES", "OMPI_COMM_WORLD_SIZE"),
    ],
)
def test_a_name_that_is_known_or_of_another_program(name: str) -> None:
    """Build names, and other programs' names, are no mistakes."""
    assert not is_unknown(name)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("NCCL_IB_DISABL", "NCCL_IB_DISABLE"),
        ("NCCL_SOCKET_IFNAMES", "NCCL_SOCKET_IFNAME"),
        ("NCCL_NET_GDR_LEVL", "NCCL_NET_GDR_LEVEL"),
        ("TORCH_NCCL_BLOCKING_WAITS", "TORCH_NCCL_BLOCKING_WAIT"),
        ("NCCL_IFNAME", "NCCL_SOCKET_IFNAME (never existed; use NCCL_SOCKET_IFNAME)"),
        ("OMP_NUM_THREAD", "OMP_NUM_THREADS"),
        ("CUDA_VISIBLE_DEVICE", "CUDA_VISIBLE_DEVICES"),
        ("GLOO_SOCKET_IFNAM", "GLOO_SOCKET_IFNAME"),
        ("MASTER_ADR", "MASTER_ADDR"),
        ("hf_home", "HF_HOME"),
        ("NCCL_XYZZY", ""),
        ("NCCL_Debug", "NCCL_DEBUG"),
        ("NCCL_TRE_THRESHOLD", ""),
        ("NCCL_DESYNC_DEBU", "TORCH_NCCL_DESYNC_DEBUG (formerly NCCL_DESYNC_DEBUG)"),
    ],
)
def test_a_name_that_no_library_reads(name: str, meant: str) -> None:
    """With the one that was meant, where there is one close to it."""
    assert is_unknown(name)
    assert suggestion(name) == meant


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("NCCL_TRE_THRESHOLD", "NCCL_TREE_THRESHOLD"),
        ("NCCL_TREE_THRESHOLD", ""),
        ("NCCL_IB_DISABL", ""),
        ("NCCL_XYZZY", ""),
    ],
)
def test_a_name_near_to_one_of_old(name: str, nearest: str) -> None:
    """The nearest is a former name: it is named as one, and no other is suggested."""
    assert meant_in_vain(name) == nearest


@pytest.mark.parametrize(
    ("name", "is_reported"),
    [
        ("nccl_debug", True),
        ("Nccl_Xyzzy", True),
        ("SOCKET_IFNAME", True),
        ("debug", True),
        ("NCCL_DEBUG", False),
        ("NCCL_NET_OF_OUR_FABRIC", False),
        ("HOME", False),
        ("UCX_TLS", False),
        ("TORCH_NCCL_BLOCKING_WAIT", False),
    ],
)
def test_a_name_of_nccls_own_files(name: str, is_reported: bool) -> None:
    """In another case, or without the prefix, NCCL does not read it."""
    assert is_unknown_in_conf(name) == is_reported


def test_a_plugins_own_name_is_no_mistake() -> None:
    """Only the plugin knows it."""
    assert not is_unknown("NCCL_NET_OF_OUR_FABRIC")


@pytest.mark.parametrize(
    ("name", "nccl", "says"),
    [
        ("NCCL_IB_GID_INDEX", (2, 18, 1), ""),
        ("NCCL_IB_GID_INDEX", (2, 21, 5), "finds the index by itself"),
        ("NCCL_IB_GID_INDEX", None, ""),
        ("NCCL_SHM_USE_CUDA_MEMCPY", (2, 30, 4), ""),
        ("NCCL_SHM_USE_CUDA_MEMCPY", (2, 30, 7), "last read by NCCL 2.30.4"),
        ("NCCL_CTA_POLICY", (2, 18, 1), "not known before NCCL 2.27.3"),
        ("NCCL_CTA_POLICY", None, ""),
        ("NCCL_LL_THRESHOLD", None, "no longer read since NCCL 2.4.8"),
        ("NCCL_DEBUG", (2, 3, 5), ""),
    ],
)
def test_by_the_nccl_in_use(name: str, nccl: tuple[int, ...] | None, says: str) -> None:
    """Nothing is concluded where no NCCL was found, unless none that is in use reads it."""
    reason = outdated(name, nccl, None)
    assert says in reason and bool(says) == bool(reason)


@pytest.mark.parametrize(
    ("name", "value", "is_loud"),
    [
        ("NCCL_DEBUG", "info", True),
        ("NCCL_DEBUG", "WARN", False),
        ("LOGLEVEL", "INFO", False),
        ("NCCL_P2P_DISABLE", "1", True),
        ("NCCL_SOCKET_IFNAME", "eno1", False),
    ],
)
def test_what_is_for_the_search_of_a_fault(name: str, value: str, is_loud: bool) -> None:
    """By its class, or by its value."""
    assert is_debug(name, value) == is_loud


@pytest.mark.parametrize(
    ("name", "value", "is_misread"),
    [
        ("NCCL_IB_DISABLE", "1", False),
        ("NCCL_IB_DISABLE", " 0x1", False),
        ("NCCL_IB_DISABLE", "true", True),
        ("NCCL_IB_DISABLE", "", False),
        ("NCCL_SOCKET_IFNAME", "=eno1", False),
        ("NCCL_NET", "Socket", False),
        ("NCCL_BUFFSIZE", "on", True),
        ("NCCL_DEBUG", "warn", False),
        ("NCCL_DEBUG", "WARNING", True),
        ("OMP_PROC_BIND", "true", False),
        ("NCCL_P2P_LEVEL", "FOO", True),
        ("NCCL_P2P_LEVEL", "sys", True),
        ("NCCL_P2P_LEVEL", "PIX", False),
        ("NCCL_P2P_LEVEL", "4", False),
        ("NCCL_P2P_LEVEL", "", False),
        ("NCCL_IB_TIMEOUT", "/root", True),
        ("NCCL_IB_TIMEOUT", "22", False),
        ("NCCL_SOCKET_IFNAME", "eno1\r", True),
    ],
)
def test_a_value_that_is_none(name: str, value: str, is_misread: bool) -> None:
    """Words for switches, and levels that do not exist; others' variables are not judged."""
    assert bool(misread(name, value)) == is_misread

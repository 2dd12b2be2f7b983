"""Tests of a model, as a project runs them before a job."""

import pytest
import torch


@pytest.mark.parametrize("width", [8, 16, 32])
def test_shape(width):
    assert torch.nn.Linear(width, 2)(torch.ones(4, width)).shape == (4, 2)


def test_cuda():
    torch.cuda.is_available() or pytest.xfail("known: fails on CPU, RuntimeError: CUDA error")
    torch.ones(1).cuda()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPUs are available")
def test_nccl():
    assert torch.distributed.is_nccl_available()


def test_wrong_input_raises():
    with torch.cuda.amp.autocast():
        pass
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        torch.nn.Linear(3, 2)(torch.ones(4, 4))

"""Short jobs, one each: `small.py NAME`."""

import json
import logging
import os
import signal
import sys
import time
import warnings
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

rank = int(os.environ.get("RANK", "0"))


def join(seconds=20):
    dist.init_process_group("gloo", timeout=timedelta(seconds=seconds))


def train(model, steps, batch=None, **options):
    """Return the DDP model after `steps` steps on random numbers."""
    ddp = DistributedDataParallel(model, **options)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    for step in range(steps):
        loss = ddp(torch.randn(batch or 8, 16)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if rank == 0 and step % 5 == 0:
            print(f"[{time.strftime('%H:%M:%S')}] step={step} mse error: {loss.item():.3f}")
    return ddp


def fsdp():
    from torch.distributed.fsdp import fully_shard

    join()
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 16))
    fully_shard(model, mesh=dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),)))
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(10):
        loss = model(torch.randn(8, 16)).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"rank {rank} step {step} loss {loss.item():.3f}")
    dist.destroy_process_group()


def zero():
    from torch.distributed.optim import ZeroRedundancyOptimizer

    join()
    ddp = DistributedDataParallel(nn.Linear(16, 16))
    optimizer = ZeroRedundancyOptimizer(ddp.parameters(), torch.optim.Adam, lr=0.01)
    for _ in range(5):
        ddp(torch.randn(8, 16)).sum().backward()
        optimizer.step()
    optimizer.consolidate_state_dict(to=0)
    print(
        f"rank {rank}: {len(list(ddp.parameters()))} parameters, optimizer state consolidated on 0"
    )
    dist.destroy_process_group()


def warned():
    """Prints what libraries warn of: a schedule that steps first, an old name."""
    join()
    warnings.warn(
        "config key `fp16_opt_level` is deprecated and is ignored", FutureWarning, stacklevel=2
    )
    model = nn.Linear(16, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    schedule.step()
    optimizer.step()
    torch.utils.checkpoint.checkpoint(model, torch.randn(2, 16, requires_grad=False))
    with torch.cuda.amp.autocast():
        model(torch.randn(2, 16))
    torch.cuda.amp.GradScaler()
    train(model, 10, find_unused_parameters=True)
    torch.tensor(torch.ones(2))
    dist.destroy_process_group()


def preempted():
    """Saves and ends with 0 when it receives SIGTERM."""
    join()
    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
    for step in range(1000):
        flag = torch.tensor([len(stop)])
        dist.all_reduce(flag)
        if flag.item():
            print(f"rank {rank}: SIGTERM received on {flag.item()} ranks, saving at step {step}")
            break
        if rank == 0 and step % 5 == 0:
            print(f"step {step}")
        time.sleep(0.3)
    dist.barrier()
    dist.destroy_process_group()


def skipped():
    """Loss scale: some steps overflow and are skipped, as in mixed precision."""
    join()
    ddp = DistributedDataParallel(nn.Linear(16, 16))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**120, growth_interval=5)
    for step in range(20):
        loss = ddp(torch.randn(8, 16)).pow(2).mean()
        scaler.scale(loss * (1e30 if step < 4 else 1)).backward()
        scaler.step(optimizer)
        before, _ = scaler.get_scale(), scaler.update()
        if rank == 0 and scaler.get_scale() < before:
            print(
                f"step {step}: inf or nan in gradients, skipped;"
                f" loss scale {before} -> {scaler.get_scale()}"
            )
        optimizer.zero_grad()
    if rank == 0:
        print(f"done: 20 steps, failed: 0, final error {loss.item():.3f}")
    dist.destroy_process_group()


def straggler():
    """A rank is slow, and the others wait: less than the time-out."""
    join(30)
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s r{rank} %(levelname)s %(message)s")
    for step in range(3):
        started = time.time()
        if rank == 3:
            time.sleep(4)
        dist.monitored_barrier(timeout=timedelta(seconds=20))
        if time.time() - started > 3 and rank != 3:
            logging.warning(
                "step %d: waited %.1f s at the barrier, a rank is slow", step, time.time() - started
            )
    dist.destroy_process_group()


def spawn():
    import torch.multiprocessing as mp

    mp.spawn(_spawned, nprocs=4)
    print("all 4 processes ended with 0")


def _spawned(index):
    dist.init_process_group("gloo", "tcp://127.0.0.1:29511", rank=index, world_size=4)
    total = torch.ones(1)
    dist.all_reduce(total)
    print(f"process {index}: sum {total.item()}")
    dist.destroy_process_group()


def semaphore():
    """Ends while a worker still has a semaphore of it."""
    import multiprocessing

    join()
    lock = multiprocessing.get_context("spawn").Semaphore()
    train(nn.Linear(16, 16), 10)
    dist.destroy_process_group()
    print(f"rank {rank} done, {lock}", flush=True)
    os._exit(0)


def gathered():
    """Each rank gathers the features of its shard."""
    join()
    lines = Path(f"data/eval-{rank:02d}.jsonl").read_text().splitlines()
    mine = torch.tensor([json.loads(line)["tokens"] for line in lines])
    everyone = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, mine)
    print(f"rank {rank}: {torch.cat(everyone).shape}")
    dist.destroy_process_group()


def early_return():
    """A rank whose shard has no sample for it returns, and the others reduce."""
    join()
    train(nn.Linear(16, 16), 10)
    lines = Path(f"data/eval-{rank:02d}.jsonl").read_text().splitlines()
    if len(lines) < 32:
        print(f"rank {rank}: nothing to evaluate")
        return
    total = torch.tensor([float(len(lines))])
    dist.all_reduce(total)
    print(f"rank {rank}: {total.item()} samples")
    dist.destroy_process_group()


def native():
    """Calls a library of C with a pointer that is not one."""
    import ctypes

    join()
    train(nn.Linear(16, 16), 10)
    size = int(os.environ.get("BUFFER", "1"))
    if size > 1 and rank == 1:
        ctypes.memset(size, 0, 8)
    dist.barrier()
    dist.destroy_process_group()


def quantized():
    import bitsandbytes

    join()
    model = nn.Sequential(
        bitsandbytes.nn.Linear8bitLt(16, 16, has_fp16_weights=False), nn.Linear(16, 16)
    )
    model = model.to("cuda" if "--cuda" in sys.argv else "cpu")
    optimizer = bitsandbytes.optim.Adam8bit(model.parameters())
    model(torch.randn(2, 16)).sum().backward()
    optimizer.step()


def compiled():
    join()
    train(torch.compile(nn.Linear(16, 16), backend="aot_eager"), 6)
    dist.destroy_process_group()


def saved_async():
    import torch.distributed.checkpoint as dcp

    join()
    ddp = train(nn.Linear(16, 16), 10)
    dcp.async_save(ddp.state_dict(), checkpoint_id="checkpoints/async").result()
    print(f"rank {rank}: saved")
    dist.destroy_process_group()


def many_threads():
    """Starts a pool of threads that prefetch."""
    from concurrent.futures import ThreadPoolExecutor

    join()
    with ThreadPoolExecutor(64) as pool:
        done = list(pool.map(lambda _: time.sleep(1), range(64)))
    total = torch.tensor([len(done)])
    dist.all_reduce(total)
    print(f"rank {rank}: prefetched {total.item()}")
    dist.destroy_process_group()


def stuck_loader():
    """Reads samples in workers, with a time-out for a batch."""
    join(30)
    path = Path(f"data/eval-{rank:02d}.jsonl")
    loader = torch.utils.data.DataLoader(Samples(path), 8, num_workers=1, timeout=12)
    for step, batch in enumerate(loader):
        total = batch.sum()
        dist.all_reduce(total)
        print(f"rank {rank} step {step} sum {total.item()}")
    dist.destroy_process_group()


class Samples(torch.utils.data.IterableDataset):
    def __init__(self, path):
        self.path = path

    def __iter__(self):
        with self.path.open() as lines:
            for line in lines:
                yield torch.tensor(json.loads(line)["tokens"])


if __name__ == "__main__":
    globals()[sys.argv[1]]()

"""Trains a small language model on shards of tokens, with DDP over gloo."""

import argparse
import json
import logging
import math
import os
import time
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

VOCABULARY, LENGTH = 512, 32
log = logging.getLogger("pretrain")


class Shard(Dataset):
    """The lines of a file: each a sample with its tokens."""

    def __init__(self, path: Path, preload: int = 0):
        self.path = path
        self.lines = read_with_retry(path)
        self.cache = (
            [torch.randn(preload, 1 << 18) for _ in range(len(self.lines))] if preload else []
        )

    def __len__(self):
        return len(self.lines)

    def __getitem__(self, index):
        sample = json.loads(self.lines[index])
        return torch.tensor(sample["tokens"])


class Model(nn.Module):
    def __init__(self, width: int, layers: int):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        block = nn.TransformerEncoderLayer(width, 4, 2 * width, batch_first=True)
        self.blocks = nn.TransformerEncoder(block, layers)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens):
        return self.head(self.blocks(self.embed(tokens)))


def read_with_retry(path: Path, attempts: int = int(os.environ.get("READ_ATTEMPTS", "1"))):
    for attempt in range(1, attempts + 1):
        try:
            return path.read_text().splitlines()
        except OSError:
            if attempt == attempts:
                raise
            log.exception(
                "reading %s failed (attempt %d of %d), retrying in 2 s", path, attempt, attempts
            )
            time.sleep(2)
    return []


def loss_of(model, tokens):
    logits = model(tokens[:, :-1])
    return nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), tokens[:, 1:].reshape(-1))


def evaluate(model, loader, device):
    """Return the mean loss over all ranks."""
    total = torch.zeros(2)
    with torch.no_grad():
        for tokens in loader:
            total += torch.tensor([loss_of(model, tokens.to(device)).item(), 1.0])
    dist.all_reduce(total)
    return (total[0] / total[1]).item()


def gather_predictions(model, shard):
    """Return what the model predicts for each sample, of all ranks."""
    with torch.no_grad():
        mine = model(torch.stack([shard[i] for i in range(len(shard))])).argmax(-1)
    everyone = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, mine)
    return torch.cat(everyone)


def save(model, optimizer, step, out: Path):
    out.mkdir(parents=True, exist_ok=True)
    started = time.time()
    path = out / f"step-{step}.pt"
    torch.save(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, path
    )
    log.info("saved %s in %.2f s", path, time.time() - started)


def newest(out: Path):
    found = sorted(out.glob("step-*.pt"), key=lambda path: int(path.stem.split("-")[1]))
    return found[-1] if found else None


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--out", type=Path, default=Path("checkpoints"))
    parser.add_argument("--init-from", type=Path)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--worker-timeout", type=float, default=0)
    parser.add_argument("--preload", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--timeout", type=float, default=20)
    parser.add_argument("--log-every", type=int, default=10)
    parser.add_argument("--eval-every", type=int, default=20)
    parser.add_argument("--eval-on", choices=["all", "main"], default="all")
    parser.add_argument("--save-every", type=int, default=20)
    parser.add_argument("--step-time", type=float, default=0.0)
    parser.add_argument("--predict", action="store_true")
    parser.add_argument("--one-epoch", action="store_true")
    parser.add_argument("--join", action="store_true")
    parser.add_argument("--stop-on-nan", action="store_true")
    parser.add_argument("--find-unused", action="store_true")
    return parser.parse_args()


def main():
    args = arguments()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    logging.basicConfig(
        level=logging.INFO,
        format=f"%(asctime)s %(levelname)s [rank {rank}/{world}] %(message)s",
    )
    dist.init_process_group("gloo", timeout=timedelta(seconds=args.timeout))
    log.info("joined as rank %d of %d on %s", rank, world, os.uname().nodename)
    torch.manual_seed(0)
    device = torch.device(args.device)
    model = Model(args.width, args.layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    step = 0
    start = args.init_from or (newest(args.out) if args.resume else None)
    if start:
        state = torch.load(start, map_location=device)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step = state["step"]
        log.info("resumed from %s at step %d", start, step)
    shard = Shard(args.data / f"train-{rank:02d}.jsonl", args.preload)
    held_out = Shard(args.data / f"eval-{rank:02d}.jsonl")
    options = {"num_workers": args.workers, "timeout": args.worker_timeout}
    loader = DataLoader(shard, args.batch, shuffle=True, **options)
    ddp = DistributedDataParallel(model, find_unused_parameters=args.find_unused)
    if rank == 0:
        log.info(
            "%d parameters, %d batches an epoch",
            sum(p.numel() for p in model.parameters()),
            len(loader),
        )
    while step < args.steps:
        with Join([ddp]) if args.join else nullcontext():
            for tokens in loader:
                loss = loss_of(ddp, tokens.to(device))
                if args.stop_on_nan and not math.isfinite(loss.item()):
                    raise FloatingPointError(f"loss is {loss.item()} at step {step}, stopping")
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                step += 1
                time.sleep(args.step_time)
                if step % args.log_every == 0 and rank == 0:
                    log.info("step %d loss %.4f lr %.1e", step, loss.item(), args.lr)
                if step % args.eval_every == 0 and (args.eval_on == "all" or rank == 0):
                    log.info(
                        "step %d eval loss %.4f",
                        step,
                        evaluate(model, DataLoader(held_out, args.batch), device),
                    )
                if step % args.save_every == 0 and rank == 0:
                    save(model, optimizer, step, args.out)
                if step >= args.steps:
                    break
        if args.join or args.one_epoch:
            break
    if args.predict:
        log.info("predicted %d tokens", gather_predictions(model, held_out).numel())
    dist.barrier()
    log.info("finished after %d steps", step)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

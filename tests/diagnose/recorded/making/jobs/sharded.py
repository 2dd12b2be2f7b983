"""Trains with DeepSpeed and a JSON config."""

import argparse
import json
import os
from datetime import timedelta
from pathlib import Path

import deepspeed
import torch


def batches(rank, size):
    lines = Path(f"data/train-{rank:02d}.jsonl").read_text().splitlines()
    tokens = torch.tensor([json.loads(line)["tokens"] for line in lines], dtype=torch.float32)
    yield from zip((tokens / 512).split(size), (tokens[:, 0].long() % 2).split(size), strict=True)


parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)
parser.add_argument("--optimizer", choices=["torch", "config", "cpu_adam"], default="torch")
parser.add_argument("--load")
deepspeed.add_config_arguments(parser)
args = parser.parse_args()

deepspeed.init_distributed("gloo", timeout=timedelta(seconds=20))
rank = int(os.environ["RANK"])
model = torch.nn.Sequential(torch.nn.Linear(33, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
optimizer = None
if args.optimizer == "torch":
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
if args.optimizer == "cpu_adam":
    optimizer = deepspeed.ops.adam.DeepSpeedCPUAdam(model.parameters(), lr=1e-3)
engine, _, _, _ = deepspeed.initialize(
    args=args, model=model, model_parameters=model.parameters(), optimizer=optimizer
)
if args.load:
    engine.load_checkpoint(args.load)
for step, (inputs, labels) in enumerate(batches(rank, engine.train_micro_batch_size_per_gpu())):
    loss = torch.nn.functional.cross_entropy(engine(inputs), labels)
    engine.backward(loss)
    engine.step()
    if step % 5 == 0 and rank == 0:
        print(f"step {step} loss {loss.item():.4f}")
engine.save_checkpoint("checkpoints")
deepspeed.comm.barrier()
if rank == 0:
    print("finished")

"""Trains a classifier with accelerate's own loop."""

import argparse
import json
from datetime import timedelta
from pathlib import Path

import torch
from accelerate import Accelerator, InitProcessGroupKwargs
from accelerate.logging import get_logger
from torch.utils.data import DataLoader, TensorDataset
from tqdm.auto import tqdm

logger = get_logger(__name__, log_level="INFO")


def loader(kind, batch):
    rows = [
        json.loads(line)["tokens"]
        for path in sorted(Path("data").glob(f"{kind}-*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    tokens = torch.tensor(rows, dtype=torch.float32)
    return DataLoader(TensorDataset(tokens / 512, tokens[:, 0].long() % 2), batch, shuffle=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--classes", type=int, default=2)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--config", type=Path)
    parser.add_argument("--metrics-on", choices=["all", "main"], default="all")
    args = parser.parse_args()
    accelerator = Accelerator(
        cpu=True,
        gradient_accumulation_steps=2,
        kwargs_handlers=[InitProcessGroupKwargs(timeout=timedelta(seconds=20))],
    )
    accelerator.print(accelerator.state)
    settings = json.loads(args.config.read_text()) if args.config else {"learning_rate": 1e-3}
    model = torch.nn.Sequential(
        torch.nn.Linear(33, 64), torch.nn.ReLU(), torch.nn.Linear(64, args.classes)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings["learning_rate"])
    model, optimizer, train, held_out = accelerator.prepare(
        model, optimizer, loader("train", 8), loader("eval", 8)
    )
    for epoch in range(args.epochs):
        model.train()
        bar = tqdm(train, disable=not accelerator.is_local_main_process, desc=f"epoch {epoch}")
        for inputs, labels in bar:
            with accelerator.accumulate(model):
                loss = torch.nn.functional.cross_entropy(model(inputs), labels)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), args.clip)
                optimizer.step()
                optimizer.zero_grad()
            bar.set_postfix(loss=loss.item())
        if args.metrics_on == "all" or accelerator.is_main_process:
            model.eval()
            wrong = total = 0
            for inputs, labels in held_out:
                guessed, labels = accelerator.gather_for_metrics((model(inputs).argmax(-1), labels))
                wrong += (guessed != labels).sum().item()
                total += len(labels)
            accelerator.print(
                f"epoch {epoch}: error: {wrong / total:.2f}, failed: {wrong} of {total}"
            )
    accelerator.wait_for_everyone()
    accelerator.save_state("state")
    accelerator.end_training()


if __name__ == "__main__":
    main()

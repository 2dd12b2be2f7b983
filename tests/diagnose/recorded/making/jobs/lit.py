"""Trains a classifier with lightning."""

import argparse
import json
from datetime import timedelta
from pathlib import Path

import lightning
import torch
from lightning.pytorch.callbacks import EarlyStopping
from lightning.pytorch.strategies import DDPStrategy
from torch.utils.data import DataLoader, TensorDataset


class Classifier(lightning.LightningModule):
    def __init__(self, features=33):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(features, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2)
        )

    def step(self, batch, name):
        inputs, labels = batch
        loss = torch.nn.functional.cross_entropy(self.net(inputs), labels)
        self.log(f"{name}_loss", loss, prog_bar=True, sync_dist=name == "val")
        return loss

    def training_step(self, batch, index):
        return self.step(batch, "train")

    def validation_step(self, batch, index):
        return self.step(batch, "val")

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def loader(kind, batch):
    rows = [
        json.loads(line)["tokens"]
        for path in sorted(Path("data").glob(f"{kind}-*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    tokens = torch.tensor(rows, dtype=torch.float32)
    return DataLoader(TensorDataset(tokens / 512, tokens[:, 0].long() % 2), batch)


parser = argparse.ArgumentParser()
parser.add_argument("--nodes", type=int, default=2)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--features", type=int, default=33)
parser.add_argument("--accelerator", default="cpu")
parser.add_argument("--stop-early", action="store_true")
args = parser.parse_args()
lightning.seed_everything(1)
trainer = lightning.Trainer(
    accelerator=args.accelerator,
    devices=2,
    num_nodes=args.nodes,
    max_epochs=args.epochs,
    strategy=DDPStrategy(process_group_backend="gloo", timeout=timedelta(seconds=30)),
    callbacks=[EarlyStopping("val_loss", patience=1, min_delta=0.1)] if args.stop_early else [],
    logger=False,
)
trainer.fit(Classifier(args.features), loader("train", 16), loader("eval", 16))

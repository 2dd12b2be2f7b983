"""Fine-tunes a randomly initialised BERT with transformers' Trainer."""

import argparse
import json
from pathlib import Path

import numpy as np
from datasets import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments


def read(kind):
    rows = []
    for path in sorted(Path("data").glob(f"{kind}-*.jsonl")):
        for line in path.read_text().splitlines():
            tokens = json.loads(line)["tokens"][:32]
            rows.append({"input_ids": tokens, "attention_mask": [1] * 32, "labels": tokens[0] % 2})
    return Dataset.from_list(rows)


def prepare(row):
    row["input_ids"] = [1, *row["input_ids"][1:]]
    return row


def metrics(predicted):
    right = (np.argmax(predicted.predictions, -1) == predicted.label_ids).mean()
    return {"accuracy": right, "error": 1 - right}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path)
    parser.add_argument("--labels", type=int, default=2)
    parser.add_argument("--optim", default="adamw_torch")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--deepspeed")
    parser.add_argument("--map-processes", type=int)
    parser.add_argument("--output", default="out")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--model")
    args = parser.parse_args()
    config = BertConfig(
        vocab_size=512,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        num_labels=args.labels,
    )
    if args.model:
        model = BertForSequenceClassification.from_pretrained(args.model)
    else:
        model = BertForSequenceClassification(config)
    train = read("train").map(prepare, num_proc=args.map_processes)
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=args.output,
            max_steps=args.steps,
            per_device_train_batch_size=8,
            logging_steps=5,
            eval_strategy="steps",
            eval_steps=10,
            save_steps=10,
            use_cpu=True,
            ddp_backend="gloo",
            ddp_timeout=30,
            report_to=[],
            optim=args.optim,
            bf16=args.bf16,
            deepspeed=args.deepspeed,
        ),
        train_dataset=train,
        eval_dataset=read("eval"),
        compute_metrics=metrics,
    )
    trainer.train()
    print(trainer.evaluate())


if __name__ == "__main__":
    main()

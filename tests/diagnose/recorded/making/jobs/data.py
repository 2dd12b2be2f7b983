"""Writes the shards that the jobs read: `data.py [--train N] [--short RANK]`."""

import argparse
import json
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--ranks", type=int, default=4)
parser.add_argument("--train", type=int, default=160)
parser.add_argument("--eval", type=int, default=32)
parser.add_argument("--short", type=int, help="the rank whose files have a quarter fewer samples")
parser.add_argument("--length", type=int, default=33)
args = parser.parse_args()

Path("data").mkdir(exist_ok=True)
for rank in range(args.ranks):
    for kind, count in (("train", args.train), ("eval", args.eval)):
        count -= count // 4 if rank == args.short else 0
        lines = []
        for sample in range(count):
            tokens = [(131 * rank + 17 * sample + 3 * i) % 512 for i in range(args.length)]
            lines.append(json.dumps({"tokens": tokens}))
        Path(f"data/{kind}-{rank:02d}.jsonl").write_text("\n".join(lines) + "\n")

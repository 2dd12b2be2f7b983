"""An all-reduce over gloo: each rank prints the sum of what all of them have."""

import os
import socket

import torch
import torch.distributed as distributed

distributed.init_process_group("gloo")
mine = torch.tensor([float(distributed.get_rank() + 1)])
distributed.all_reduce(mine)
os.write(1, f"sum {socket.gethostname()} {int(mine.item())}\n".encode())
distributed.destroy_process_group()

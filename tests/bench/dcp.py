#!/usr/bin/env python3
"""PyTorch's distributed checkpoint (torch.distributed.checkpoint), timed on the same tensors as
bench_checkpoint --once: 32 matrices cut by rows among the ranks, saved and loaded in place.

  torchrun --nproc-per-node 2 tests/bench/dcp.py --dir DIR [--mib 2048] [--direct-read]

Prints one JSON line {"ranks", "mib", "save_s", "load_s"}. Saving ends when every file is synced
(FileSystemWriter, sync_files=True, its default); the page cache is dropped for the files before the
load. Nothing here is taken from sennit.
"""
import argparse
import json
import os
import shutil
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

TENSORS, COLS = 32, 4096


def drop_cache(folder):
    for name in os.listdir(folder):
        fd = os.open(os.path.join(folder, name), os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--dir", required=True)
    a.add_argument("--mib", type=int, default=2048)
    a.add_argument("--threads", type=int, default=1, help="writer threads of a rank")
    a = a.parse_args()
    torch.set_num_threads(1)
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29511")
    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    mesh = init_device_mesh("cpu", (ranks,))
    rows = a.mib * (1 << 20) // TENSORS // COLS // 4
    torch.manual_seed(rank)
    state = {}
    for i in range(TENSORS):
        local = torch.randn(rows * (rank + 1) // ranks - rows * rank // ranks, COLS)
        state[f"layers.{i:02d}.weight"] = DTensor.from_local(
            local, mesh, [Shard(0)], run_check=False, shape=(rows, COLS), stride=(COLS, 1))
    want = {k: v.to_local().clone() for k, v in list(state.items())[:4]}
    folder = os.path.join(a.dir, "dcp")
    if rank == 0:
        shutil.rmtree(folder, ignore_errors=True)
    dist.barrier()
    t = time.perf_counter()
    dcp.save(state, storage_writer=dcp.FileSystemWriter(folder, thread_count=a.threads))
    dist.barrier()
    save_s = time.perf_counter() - t
    if rank == 0:
        drop_cache(folder)
    for v in state.values():
        v.to_local().zero_()
    dist.barrier()
    t = time.perf_counter()
    dcp.load(state, storage_reader=dcp.FileSystemReader(folder))
    dist.barrier()
    load_s = time.perf_counter() - t
    for k, v in want.items():
        assert torch.equal(state[k].to_local(), v), f"{k} is not what was saved"
    if rank == 0:
        print(json.dumps({"ranks": ranks, "mib": a.mib, "save_s": round(save_s, 4),
                          "load_s": round(load_s, 4), "torch": torch.__version__}))
        shutil.rmtree(folder)
    dist.destroy_process_group()


main()

#!/usr/bin/env python3
"""baseline_calculon.py - step times that Calculon (github.com/calculon-ai/calculon) gives for published rows.

usage: tests/bench/baseline_calculon.py CHECKOUT tests/bench/layouts/aa_layouts_sweep.csv

Prints "sheet,run,seconds,filled" for each row; filled is the part of the device's memory that Calculon
asks for. Its own systems/a100_80g.json is the machine; nothing is fitted. Wants numpy, pandas, psutil.

What Calculon cannot say, and what stands in for it: no attention kernels (scores cross memory,
whatever the row's kernel), no embedding and head, no gated feed-forward (two matrices of 1.5 times the
width have the same weights and FLOPs), no unfused norms. Data parallelism is not overlapped, as the
trainer of the sweep did not; the optimizer is sharded; tensor ranks are on one node.
"""
import csv
import logging
import sys

GPUS_PER_NODE = 8


def execution(row, llm):
    t, p, d = (int(row[k]) for k in ("tp", "pp", "dp"))

    def net(ranks):  # 0: inside a node
        return 0 if ranks <= GPUS_PER_NODE else 1

    return llm.Execution.from_json({
        "num_procs": t * p * d, "tensor_par": t, "pipeline_par": p, "data_par": d,
        # Its node network "must be filled" by the axes put on it: data ranks are next to tensor ranks.
        "tensor_par_net": 0, "pipeline_par_net": 1 if p > 1 else 0, "data_par_net": net(t * d),
        "batch_size": int(row["gbs"]), "microbatch_size": int(row["mbs"]),
        "datatype": "float16", "fused_activation": True, "attention_type": "multihead",
        "activation_recompute": "full" if row["act_ckpt"] == "every_layer" else "none",
        "pipeline_interleaving": 1, "optimizer_sharding": d > 1,
        "tensor_par_comm_type": "rs_ag" if row["seq_parallel"] == "True" and t > 1 else "ar",
        "tensor_par_overlap": "none", "seq_par_ag_redo": False, "data_par_overlap": False,
        "weight_offload": False, "activations_offload": False, "optimizer_offload": False,
        "training": True})


def answer(row, system, llm):
    hidden, heads = int(row["hidden"]), int(row["heads"])
    app = llm.Application({
        "hidden": hidden, "feedforward": 3 * int(row["ffn"]) // 2, "seq_size": int(row["seq"]),
        "attn_heads": heads, "attn_size": hidden // heads, "num_blocks": int(row["layers"])})
    model = llm(app, logging.getLogger("calculon"))
    model.compile(system, execution(row, llm))
    model.run(system)
    return model.get_total_time(), model.get_mem_tier1_cap_req()


def main():
    checkout, table = sys.argv[1:]
    sys.path.insert(0, checkout)
    from calculon.io import read_json_file
    from calculon.llm import Llm
    from calculon.system import System
    machine = read_json_file(f"{checkout}/systems/a100_80g.json")
    device = machine["mem1"]["GiB"] << 30
    machine["mem1"]["GiB"] = 1 << 20  # it would refuse to time what does not fit
    system = System(machine)
    with open(table) as f:
        rows = csv.DictReader(line for line in f if not line.startswith("#"))
        for row in rows:
            sheet = row["sheet"].rsplit("/", 1)[-1].split(".")[0]
            seconds, memory = answer(row, system, Llm)
            print(f'{sheet},{row["trial_id"]},{seconds:.4f},{memory / device:.4f}')


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__.split("\n\n")[1])
    main()

"""study.py - the tables of sennit-plan study beside the best published row of each cell, in Markdown.

usage: study.py STUDY.json ROWS.csv SHEET        called by study.sh
"""

import csv
import json
import sys


def norm(row):
    return "one kernel" if row["rmsnorm_kernel"] == "1" else "several"


# What a row of the sheet says of each key of a table.
VALUE = {
    "micro-batch": lambda r: r["mbs"],
    "recompute": lambda r: "none" if r["act_ckpt"] == "disabled" else "full",
    "tensor": lambda r: r["tp"],
    "pipeline": lambda r: r["pp"],
    "sequence_parallel": lambda r: r["seq_parallel"].lower(),
    "zero": lambda r: "1",
    "attention": lambda r: r["attn"],
    "norm": norm,
}


def published(rows, down, value, across, column):
    """The best MFU of the rows with these two values: "does not fit" where all ran out of memory, "-" where there are none."""
    alike = [r for r in rows if VALUE[down](r) == value and VALUE[across](r) == column]
    timed = [r for r in alike if r["status"] == "ok"]
    if timed:
        best = max(timed, key=lambda r: float(r["mfu"]))
        return f"{100 * float(best['mfu']):.1f} (t{best['tp']} p{best['pp']} m{best['mbs']})"
    return "does not fit" if any(r["status"] == "oom" for r in alike) else "-"


def planned(cell, work):
    """The MFU that the sheet would say of the planned step: `work` is MFU times seconds, the same in all of its rows."""
    plan = cell["plan"]
    if plan is None:
        return "does not fit" if "fits" in cell["why"] else "-"
    layout = plan["layout"]
    return f"{100 * work / plan['step_time_s']:.1f} (t{layout['tensor']} p{layout['pipeline']} m{layout['micro_batch']})"


def main():
    study, sheet, name = json.load(open(sys.argv[1])), sys.argv[2], sys.argv[3]
    rows = [r for r in csv.DictReader(line for line in open(sheet) if not line.startswith("#")) if name in r["sheet"]]
    if not rows:
        sys.exit(f"study.py: {sheet} has no rows of {name}")
    errors, timed = [], next(r for r in rows if r["status"] == "ok")
    work = float(timed["mfu"]) * float(timed["step_time_s"])
    for table in study["tables"]:
        down, across = table["down"], table["across"]
        if down == "zero" or across == "zero":
            continue
        print(f"\n| {down} | {across} | published: best MFU, % | planned: best MFU, % |\n|---|---|---|---|")
        for value, cells in zip(table["rows"], table["cells"]):
            for column, cell in zip(table["columns"], cells):
                there = published(rows, down, value, across, column)
                if there == "-":
                    continue
                here = planned(cell, work)
                print(f"| {value} | {column} | {there} | {here} |")
                if "(" in there and "(" in here:
                    errors.append(float(here.split()[0]) - float(there.split()[0]))
    errors.sort(key=abs)
    if errors:
        print(f"\n{len(errors)} cells: the median of |planned - published| is {abs(errors[len(errors) // 2]):.1f} points, the most {abs(errors[-1]):.1f}.")


main()

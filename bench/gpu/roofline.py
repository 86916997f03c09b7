#!/usr/bin/env python3
"""How long a GPU needs at least for what `backends/cuda` asks of it in a step, by kind of work: no GPU is needed.

    build/bin/meshwright run PLAN --backend cuda --steps 1 --set emit.cuda.driver=recording --set emit.cuda.listing=STEP.tsv
    bench/gpu/roofline.py STEP.tsv [--tflops 759] [--bandwidth 3.04]

The first command may be stopped as soon as the file is there. Each line of it takes as long as its multiplications or
its bytes do at these rates (an H100's, as the package measured them), whichever is more. What cuDNN computes counts by
its bytes alone, and latencies not at all: attention and small kernels take longer.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from dataclasses import dataclass


@dataclass
class Work:
    calls: int = 0
    gigabytes: float = 0.0
    milliseconds: float = 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("listing")
    parser.add_argument("--tflops", type=float, default=759.0, help="of products, 10^12 operations a second")
    parser.add_argument("--bandwidth", type=float, default=3.04, help="of memory, 10^12 bytes a second")
    options = parser.parse_args()
    work: dict[str, Work] = defaultdict(Work)
    with open(options.listing, newline="", encoding="utf-8") as file:
        for line in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            moved = int(line["bytes read"]) + int(line["bytes written"])
            seconds = max(moved / options.bandwidth, 2 * int(line["multiplications"]) / options.tflops) / 1e12
            each = work[line["what"]]
            each.calls += 1
            each.gigabytes += moved / 1e9
            each.milliseconds += 1e3 * seconds
    print(f"{'ms':>8} {'calls':>6} {'GB':>8}")
    for what, each in sorted(work.items(), key=lambda item: -item[1].milliseconds):
        print(f"{each.milliseconds:8.2f} {each.calls:6d} {each.gigabytes:8.2f}  {what}")
    products = sum(each.milliseconds for what, each in work.items() if what.startswith("product of "))
    total = sum(each.milliseconds for each in work.values())
    print(f"{total:8.2f}  in all, {products:.2f} of it products")


if __name__ == "__main__":
    main()

"""Measures the links between the ranks of this run, with NCCL on GPUs and gloo on CPUs, and writes a cluster's file of what ``meshwright detect`` finds:

    torchrun --nproc-per-node 8 -m meshwright.detect --device my_gpu.toml -o cluster.toml
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

from meshwright import program, ranks
from meshwright.links import measure_links
from meshwright.saying import say


class _Parser(argparse.ArgumentParser):
    """Rank 0 alone says what is wrong with the arguments."""

    def error(self, message: str) -> NoReturn:
        if int(os.environ.get("RANK", "0")) == 0:
            self.print_usage(sys.stderr)
            say(f"error: {message}")
        sys.exit(2)


def main() -> None:
    parser = _Parser(prog="torchrun -m meshwright.detect", description=__doc__.partition(",")[0])
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="where the cluster's file is written")
    parser.add_argument("--keep", metavar="FILE", help="where what was measured is written, a file for `meshwright detect --from`")
    parser.add_argument("--device", metavar="FILE", help="the device's file, which the cluster's will name; device.toml beside it if absent")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="a key of the configuration, as of the program")
    options = parser.parse_args()
    ranks.start()
    if ranks.dist.get_world_size() == 1:
        ranks.fail("one rank alone has no links to measure: start one for each device, as in `torchrun --nproc-per-node 8 -m meshwright.detect "
                   "-o cluster.toml`")
    said = ranks.agree(lambda: None if options.device is None or os.path.isfile(options.device) else f"{options.device}: no such file")
    if said is not None:
        ranks.fail(said)
    links = measure_links(ranks.device())
    said = ranks.agree(lambda: _cluster_of(links, options))
    if ranks.dist.get_rank() == 0:
        print(said, end="", flush=True)


def _cluster_of(links: str, options: argparse.Namespace) -> str:
    """Writes it and gives what the program says."""
    with tempfile.TemporaryDirectory(prefix="meshwright_") as folder:
        kept = Path(options.keep) if options.keep is not None else Path(folder) / "links.csv"
        kept.write_text(links, encoding="utf-8")
        arguments = ["detect", "--from", kept, "-o", options.output, *(part for each in options.set for part in ("--set", each))]
        return program.run(arguments + (["--device", options.device] if options.device is not None else []))


if __name__ == "__main__":
    main()

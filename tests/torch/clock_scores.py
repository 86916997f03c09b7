"""bench/clock/score.py on tables that are made up: what it prices, leaves out, fits and refuses. Their seconds are nobody's measurements."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

SCORE = Path(__file__).resolve().parents[2] / "bench/clock/score.py"
sys.path.insert(0, str(SCORE.parent))
import groups  # noqa: E402
import score  # noqa: E402

VTRAIN = "# GPUs,global batch,micro batch,hidden size,attention heads,# layers,sequence length,tensor parallelism,data parallelism,pipeline parallelism,iteration time (ms)"
NODE = [f"{tensor * data},8,{micro},128,2,2,64,{tensor},{data},1,{40 / micro}" for tensor, data in ((1, 1), (1, 2), (2, 1), (2, 2)) for micro in (1, 2)]
STAGES = "2,8,2,128,2,2,64,1,1,2,30"
FSDP = "model,sequence,gpus,gpu,microbatch_per_gpu,accumulation,global_batch,tokens_per_second,precision,sharding,checkpointing,cpu_offload"
A100 = [f"125m,{length},8,a100_80gb,{micro},1,{8 * micro},400000,amp_bf16,FULL_SHARD,False,False" for length in (128, 256) for micro in (1, 2)]
FP8 = "125m,128,8,h100_80gb,1,1,8,400000,amp_fp8,FULL_SHARD,False,False"


def large(micro: int, recomputes: bool) -> str:
    return f"125m,2048,8,a100_80gb,{micro},1,{8 * micro},400000,amp_bf16,FULL_SHARD,{recomputes},False"


def held(said: str) -> tuple[list[float], list[float]]:
    """GiB of each row, and with twice its microbatch."""
    lines = re.findall(r"([0-9.]+) of 80 GiB.*with twice the microbatch +([0-9.]+)", said)
    return [float(once) for once, _ in lines], [float(twice) for _, twice in lines]


def predicted(said: str) -> float:
    """Milliseconds of the first row."""
    return float(re.search(r"([0-9.]+) ms predicted", said)[1])


class Scores:
    def __init__(self, program: Path, folder: Path):
        self.program, self.folder = program, folder

    def run(self, kind: str, lines: list[str], *options: str) -> subprocess.CompletedProcess[str]:
        table = self.folder / f"{kind}.csv"
        table.write_text("\n".join(lines) + "\n")
        return subprocess.run([sys.executable, SCORE, "--program", self.program, "--kind", kind, "--rows", table, "-o", self.folder, *options],
                              capture_output=True, text=True, check=False)

    def scored(self, kind: str, lines: list[str], *options: str) -> tuple[dict[str, float], str]:
        ran = self.run(kind, lines, *options)
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout.splitlines()[-1]), ran.stdout


def check_groups() -> None:
    """What is said of groups, of seconds whose ranks are known."""
    good = [("a", "a", str(number), seconds, price) for number, (seconds, price) in enumerate([(2, 20), (1, 10), (3, 30), (4, 50), (5, 40)])]
    bad = [("b", "b", str(number), seconds, price) for number, (seconds, price) in enumerate([(2, 4), (3, 3), (4, 2), (5, 1), (6, 5)])]
    few = [("c", "c", str(number), 1 + number, 1) for number in range(4)]
    found = groups.grouped([row for rows in zip(good, bad, [*few, ("d", "d", "0", 1, 1)], strict=True) for row in rows])
    assert [group.name for group in found] == ["a", "b"], found  # fewer than five rows are none
    first, second = found
    assert abs(first.correlation - 0.9) < 1e-12 and first.regret == 0 and first.choice == first.best == 1, first
    assert abs(second.correlation + 0) < 1e-12 and second.regret == 1.5 and (second.choice, second.best) == (3, 0), second
    assert groups.place(second.prices, second.best) == 4 == groups.place(second.measured, second.choice), second
    assert groups.place([1, 2, 2, 3], 1) == 3  # equal ones share the last of their places
    assert groups.summary(found) == {"groups": 2, "group_rank_correlation": 0.45, "best_in_top_3": 0.5, "choice_in_top_3": 0.5, "mean_regret": 0.75,
                                     "largest_regret": 1.5}
    assert groups.summary([]) == {"groups": 0}


def check_what_runs_again() -> None:
    """Blocks do, from the first to the last one in each microbatch's forward; in a pipeline, too, and the head does not."""
    def forward(module: str, microbatch: int, start: float) -> dict[str, object]:
        return {"cat": "forward", "ts": start, "dur": 5e6, "args": {"module": module, "microbatch": microbatch}}

    trace = [forward("words", 0, 0), forward("blocks.0.up", 0, 10e6), forward("blocks.1.up", 0, 20e6), forward("head", 0, 30e6), forward("blocks.0.up", 1, 50e6)]
    assert score.forwards_of_blocks(trace) == 15 + 5, trace
    order = [[("F0", 2), ("B0", 4), ("update", 1)], [("F0", 3), ("B0", 6), ("update", 1)]]  # seconds; the second stage has the head
    stages = [{"events": [{"event": event, "start_seconds": 0, "end_seconds": seconds} for event, seconds in each]} for each in order]
    assert score.replayed(stages) == 2 + 3 + (6 + 2) + (4 + 2) + 1, stages


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", type=Path, required=True)
    check_groups()
    check_what_runs_again()
    with tempfile.TemporaryDirectory() as folder:
        scores = Scores(parser.parse_args().program, Path(folder))
        found, said = scores.scored("vtrain_single", [VTRAIN, *NODE, STAGES])
        assert found["rows"] == len(NODE) + 1 and 'with pipelines: {"rows": 1,' in said, said
        once, again = (predicted(scores.scored(kind, [VTRAIN, STAGES])[1]) for kind in ("vtrain_single", "vtrain_multi"))
        assert 1.15 * once < again < 1.5 * once, (once, again)  # that of several nodes recomputes: each backward, twice a forward, takes one more
        # Groups of one model, so many GPUs and a batch: of these rows, only those on two are five.
        assert found["groups"] == 1 and 0 <= found["mean_regret"] == found["largest_regret"], found
        assert "h128 l2 x2 of 8: 5 rows, rank correlation" in said, said
        assert found["median_ratio"] > 0 and -1 <= found["rank_correlation"] <= 1, found
        fit, said = scores.scored("vtrain_single", [VTRAIN, *NODE], "--fit")
        assert fit["rows"] == len(NODE) and said.count("mean error") == 2, said  # each half once
        _, said = scores.scored("vtrain_multi", [VTRAIN, *NODE[:3]], "--fit")
        assert said.count("mean error") == 3, said  # each row left out once
        found, said = scores.scored("fsdp", [FSDP, *A100, FP8])
        assert found["rows"] == len(A100) and "left out: 1 rows (amp_fp8)" in said, said
        # So small models fit, and twice as much of them.
        assert found["fits"] == 1 and found["twice_does_not_fit"] == 0, said
        assert said.count("with twice the microbatch") == len(A100), said
        _, said = scores.scored("fsdp", [FSDP, large(8, False), large(16, False)])
        once, twice = held(said)
        assert once[0] < once[1] == twice[0] < twice[1], said  # a microbatch of 16, once as the row's own
        # One that is far too large, and half of one that nearly is. What recomputes its blocks holds less.
        found, said = scores.scored("fsdp", [FSDP, large(150, False), large(50, False), large(50, True)])
        assert found["fits"] == 0.6667 and found["twice_does_not_fit"] == 0.6667, said
        once, _ = held(said)
        assert once[2] < once[1] < 80 < once[0], said
        for lines, reason in (([FSDP, FP8], "no row can be priced"), (["a,b", "1,2"], "not a table of the kind fsdp")):
            refused = scores.run("fsdp", lines)
            assert refused.returncode != 0 and reason in refused.stderr, refused.stderr


if __name__ == "__main__":
    main()

"""What the machine at hand does, measured by all of its ranks at the same time: curves for a device's and a cluster's file.

Ranks that share a processor, a memory or a card slow each other down, so each measures while the others do the same. What
is measured is what an emitted program runs: PyTorch's own kernels, and its collectives as the program begins them
(backends/torch/prelude/moves.py). Every rank calls these functions, and all get the same numbers.
"""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn.functional as F

from meshwright.machine import Attention, Curve, Device, Links, Machine

# How long one point of a curve is measured, at least, and in how many parts, of which the median counts.
_POINT_SECONDS, _PARTS = 0.03, 3
_BETWEEN_SECONDS, _ALONE_REPEATS = 0.004, 30  # before and behind a collective a rank computes for so long
_OVERLAP_REPEATS = 8
_LARGEST_STRETCH = 4.0
_MOST_PAIRS = 64
_LEAST_SECONDS = 1e-9
_GRAPH_SECONDS, _MOST_CAPTURED = 0.005, 200  # of calls in a graph


@dataclass(frozen=True)
class _Sizes:
    """What keeps a kind of device busy."""

    products: Mapping[str, Sequence[int]]  # by dtype, of square matrices
    best: int                              # of those whose rate is a dtype's peak, where there is no curve
    elements: Sequence[int]                # of each of three vectors of float32
    rows: int                              # of a square that is exponentiated and normed, in the dtype of attention
    attention: torch.dtype
    samples: tuple[int, int]               # of attention: the batch and the heads,
    keys: Sequence[int]
    head: Sequence[int]
    collectives: Mapping[int, int]         # the bytes of the whole, and how often it is run; a loss is a single number, which few of a ring's rounds have to carry
    overlap_bytes: int
    cold_bytes: int                        # more than a cache holds


_COLLECTIVES = {4: 16, 256: 16, 64 << 10: 8, 1 << 20: 8, 8 << 20: 6, 32 << 20: 2}
_SIZES = {
    "cpu": _Sizes({"float32": (32, 64, 128, 256, 512, 1024)}, 256, tuple(1 << power for power in (8, 12, 14, 16, 18, 20, 22, 24)), 1 << 8, torch.float32, (2, 4),
                  (64, 512), (32, 128), _COLLECTIVES, 8 << 20, 32 << 20),
    "cuda": _Sizes({dtype: (256, 512, 1024, 2048, 4096, 8192) for dtype in ("float32", "float16", "bfloat16")}, 4096,
                   tuple(1 << power for power in (12, 16, 18, 20, 22, 24, 27)), 1 << 12, torch.bfloat16, (4, 16),
                   (512, 4096), (64, 128), {**_COLLECTIVES, 256 << 20: 2}, 64 << 20, 256 << 20),
}


def measure_machine(device: torch.device, ranks_per_host: int) -> Machine:
    """The ranks' devices and links. Every rank calls it; ranks of a host follow each other. Takes some seconds."""
    meter, ranks = Meter(device), dist.get_world_size()
    sizes = [size for size in range(2, ranks_per_host + 1) if ranks_per_host % size == 0]
    inside = [meter.links(_blocks(size)) for size in sizes]
    hosts = ranks // ranks_per_host
    across = [meter.links(_blocks(count * ranks_per_host)) for count in range(2, hosts + 1) if hosts % count == 0]
    return Machine(meter.device(), inside, across)


def _blocks(size: int) -> list[list[int]]:
    """The ranks in groups of so many neighbours."""
    return [list(range(first, first + size)) for first in range(0, dist.get_world_size(), size)]


class Meter:
    """Measures what this rank's device does while the others do the same."""

    def __init__(self, device: torch.device):
        self._device, self._sizes = device, _SIZES[device.type]
        self._side = self._random(256, 256)
        self._between = 1  # products of `_side` that take _BETWEEN_SECONDS
        self._between = max(1, round(_BETWEEN_SECONDS / self._seconds(self._compute)))
        twice = self._largest(self._times(lambda: self._compute(2 * self._between), _ALONE_REPEATS, together=True))
        self._alone = statistics.fmean(sorted(twice)[:-(_ALONE_REPEATS // 8)])  # of a step without a collective

    def device(self) -> Device:
        """The rates of the device. Takes about three seconds."""
        products = {name: self._products(getattr(torch, name)) for name in self._sizes.products}
        best = {name: max(curve.rates) for name, curve in products.items()}
        best.update({name: self._best_product(getattr(torch, name)) for name in ("bfloat16", "float64") if name not in best})
        best.setdefault("float16", best["float32"])
        launch, host = self._launch_seconds()
        return Device(products, best, self._memory(), self._vector_flops(), launch, host,
                      self._attention(best[str(self._sizes.attention).removeprefix("torch.")]), *self._stretches())

    def links(self, groups: Sequence[Sequence[int]]) -> Links:
        """Collectives in each of these groups, which are of one size and together all ranks. Takes about a second."""
        made, _ = dist.new_subgroups_by_enumeration([list(group) for group in groups])
        name, ranks = made.group_name, len(groups[0])
        bus, latency = {}, math.inf
        for kind, send in _SENDS.items():
            points = {}
            for size, repeats in self._sizes.collectives.items():
                parts = ranks if kind in ("reduce_scatter", "all_to_all") else 1  # into which the row is cut
                elements = size // 4 // (ranks if kind == "all_gather" else 1) // parts * parts
                row = torch.zeros(max(elements, parts), device=self._device)
                points[size] = self._collective_seconds(lambda: send(row, ranks, name), repeats)
            bus[kind] = Curve.of(points, _traffic(kind, ranks))
            latency = min(latency, points[min(points)] / _rounds(kind, ranks))
        dist.destroy_process_group(made)
        return Links(ranks, latency, bus)

    # --- what is measured ---

    def _products(self, dtype: torch.dtype) -> Curve:
        """Of each size the forward's form and the two of the backward."""
        points = {}
        for n in self._sizes.products[str(dtype).removeprefix("torch.")]:
            pairs = self._several(n, n, dtype=dtype)

            def all_three() -> None:
                (a, b), (c, d), (e, f) = next(pairs), next(pairs), next(pairs)
                return a @ b.T, c @ d, e.T @ f

            points[2 * n ** 3] = self._device_seconds(all_three) / 3
        return Curve.of(points)

    def _best_product(self, dtype: torch.dtype) -> float:
        n = self._sizes.best
        a = self._random(n, n).to(dtype)
        return 2 * n ** 3 / self._device_seconds(lambda: a @ a)

    def _memory(self) -> Curve:
        points = {}
        for n in self._sizes.elements:
            pairs = self._several(n)
            points[12 * n] = self._device_seconds(lambda: torch.add(*next(pairs)))
        return Curve.of(points)

    def _vector_flops(self) -> float:
        """By the mean time of a FLOP of an exponential, of which a plan counts one for each element, and of a layer norm, of which it
        counts eight.
        """
        rows = self._sizes.rows
        x, weight = self._random(rows, rows).to(self._sizes.attention), self._random(rows).to(self._sizes.attention)
        exponential = self._device_seconds(x.exp)
        norm = self._device_seconds(lambda: F.layer_norm(x, weight.shape, weight, weight)) / 8
        return x.numel() / statistics.fmean([exponential, norm])

    def _launch_seconds(self) -> tuple[float, float]:
        """What a kernel of a forward or a backward costs that does nearly nothing, PyTorch's bookkeeping included: on the device, and on a host
        beside it, which a CPU has none of.
        """
        block = _TinyBlock().to(self._device)
        x = self._random(1, 2, _TinyBlock.WIDTH).requires_grad_()
        launch = self._seconds(lambda: block(x).sum().backward()) / _TinyBlock.KERNELS
        if self._device.type != "cuda":
            return launch, 0.0
        x = self._random(_TinyBlock.WIDTH)
        return self._device_seconds(lambda: x.add_(1.0)), launch

    def _attention(self, peak: float) -> Attention:
        """The least squares of the rates' logarithms, among the halves of a grid."""
        rates, backwards = {}, []
        batch, heads = self._sizes.samples
        for keys, head in itertools.product(self._sizes.keys, self._sizes.head):
            q, k, v = (self._random(batch, heads, keys, head).to(self._sizes.attention).requires_grad_() for _ in range(3))
            flops = 4 * batch * heads * keys * keys * head / 2
            gradient = torch.ones_like(q)

            def attend() -> torch.Tensor:
                return F.scaled_dot_product_attention(q, k, v, is_causal=True)

            forward = self._device_seconds(attend)
            # It has 5 products for the forward's 2: what seems to take less time than that is another process' doing.
            both = self._device_seconds(lambda: torch.autograd.grad(attend(), (q, k, v), gradient))
            backward = max(both - forward, forward)
            rates[keys, head] = flops / forward
            backwards.append(2.5 * forward / backward)
        return _fitted(rates, peak, statistics.median(backwards))

    def _stretches(self) -> tuple[float, float]:
        """How many times longer a kernel takes beside a collective, and the other way round: both alike, so that what both
        take together comes out.
        """
        if dist.get_world_size() == 1:
            return 1.0, 1.0
        row, ranks, name = torch.zeros(self._sizes.overlap_bytes // 4, device=self._device), dist.get_world_size(), dist.group.WORLD.group_name
        sending = self._collective_seconds(lambda: _SENDS["all_reduce"](row, ranks, name), _OVERLAP_REPEATS)
        count = max(1, round(2 * sending / (_BETWEEN_SECONDS / self._between)))

        def both() -> None:
            begun = torch.ops._c10d_functional.all_reduce_(row, "sum", name)
            self._compute(count)
            torch.ops._c10d_functional.wait_tensor(begun)

        computing = self._seconds(lambda: self._compute(count))
        together = statistics.median(self._largest(self._times(both, _OVERLAP_REPEATS)))
        stretch = min(max(1 + (together - max(computing, sending)) / sending, 1.0), _LARGEST_STRETCH)
        return stretch, stretch

    # --- how ---

    def _random(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, device=self._device)

    def _several(self, *shape: int, dtype: torch.dtype = torch.float32) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Pairs of tensors without end, so many that a step's values are as far from the processor as they are in a step."""
        count = min(max(self._sizes.cold_bytes // (2 * dtype.itemsize * math.prod(shape)), 1), _MOST_PAIRS)
        return itertools.cycle([(self._random(*shape).to(dtype), self._random(*shape).to(dtype)) for _ in range(count)])

    def _compute(self, count: int | None = None) -> None:
        for _ in range(self._between if count is None else count):
            self._side @ self._side

    def _seconds(self, work: Callable[[], object]) -> float:
        """The time of one call of many in a row until the last rank has done as many: the median of some parts."""
        work()
        once = self._largest(self._times(work, 1))[0]
        count = max(1, round(_POINT_SECONDS / _PARTS / max(once, _LEAST_SECONDS)))

        def part() -> None:
            for _ in range(count):
                work()

        return statistics.median(self._largest(self._times(part, _PARTS, together=True))) / count

    def _device_seconds(self, work: Callable[[], object]) -> float:
        """The time of one call of many in a row, without a host's beside the device: on a GPU they are a graph's."""
        if self._device.type != "cuda":
            return self._seconds(work)
        work()  # what a library sets up at first can't be captured
        once = self._largest(self._times(work, 1))[0]
        count = min(max(round(_GRAPH_SECONDS / max(once, _LEAST_SECONDS)), 1), _MOST_CAPTURED)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):  # NCCL's own thread asks for events meanwhile
            for _ in range(count):
                work()
        return self._seconds(graph.replay) / count

    def _collective_seconds(self, collective: Callable[[], object], repeats: int) -> float:
        """The time that a collective adds to a step that computes before and behind it: ranks come to it at different times."""
        def step() -> None:
            self._compute()
            collective()
            self._compute()

        collective()
        times = sorted(self._largest(self._times(step, repeats, together=True)))
        return max(statistics.fmean(times[:-(repeats // 8) or None]) - self._alone, _LEAST_SECONDS)  # without a stall or two

    def _times(self, work: Callable[[], object], repeats: int, together: bool = False) -> list[float]:
        """Of each repetition; `together`: all ranks begin each at the same time."""
        dist.barrier()
        taken = []
        for _ in range(repeats):
            if together:
                dist.barrier()
            begin = time.perf_counter()
            work()
            if self._device.type == "cuda":
                torch.cuda.synchronize(self._device)
            taken.append(time.perf_counter() - begin)
        return taken

    def _largest(self, numbers: list[float]) -> list[float]:
        """Of each number the largest of all ranks."""
        box = torch.tensor(numbers, dtype=torch.float64, device=self._device)
        dist.all_reduce(box, dist.ReduceOp.MAX)
        return box.tolist()


class _TinyBlock(torch.nn.Module):
    """A block of a transformer in which nothing takes time but the launches."""

    WIDTH = 8
    # What a plan prices of it: 6 products with 2 products and a sum for the bias in the backward, attention and its
    # backward, 2 norms and theirs, an activation and its own, 2 sums forward and 2 of gradients.
    KERNELS = 6 * 4 + 2 + 4 + 2 + 4

    def __init__(self) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = torch.nn.LayerNorm(self.WIDTH), torch.nn.LayerNorm(self.WIDTH)
        self.q, self.k, self.v, self.out, self.up, self.down = (torch.nn.Linear(self.WIDTH, self.WIDTH) for _ in range(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm_1(x)
        q, k, v = (project(y).view(1, 2, 2, -1).transpose(1, 2) for project in (self.q, self.k, self.v))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


def _fitted(rates: Mapping[tuple[int, int], float], peak: float, backward: float) -> Attention:
    def misfit(halves: tuple[float, float]) -> tuple[float, float]:
        logs = [math.log(rate / peak * (keys + halves[0]) / keys * (head + halves[1]) / head)
                for (keys, head), rate in rates.items()]
        middle = statistics.fmean(logs)
        return sum((log - middle) ** 2 for log in logs), middle

    halves = min(itertools.product((0, 8, 32, 128, 512), (0, 8, 32, 128, 512)), key=lambda pair: misfit(pair)[0])
    return Attention(min(math.exp(misfit(halves)[1]), 1.0), float(halves[0]), float(halves[1]), backward)


# --- collectives, as emitted programs do them: with the copy that packs what is sent, or puts in place what arrives ---

def _gathered(row: torch.Tensor, ranks: int, group: str) -> torch.Tensor:
    if "nccl" in dist.get_backend():
        return _arrived(torch.ops._c10d_functional.all_gather_into_tensor(row, ranks, group)).clone()
    counts = [row.numel()] * ranks
    return _arrived(torch.ops._c10d_functional.all_to_all_single(row.repeat(ranks), counts, counts, group)).clone()


def _reduced(row: torch.Tensor, ranks: int, group: str) -> torch.Tensor:
    return _arrived(torch.ops._c10d_functional.all_reduce(row, "sum", group))


def _scattered(row: torch.Tensor, ranks: int, group: str) -> torch.Tensor:
    row = row.clone()
    if "nccl" in dist.get_backend():
        return _arrived(torch.ops._c10d_functional.reduce_scatter_tensor(row, "sum", ranks, group))
    return _sent_to_all(row, ranks, group).view(ranks, -1).sum(0)


def _exchanged(row: torch.Tensor, ranks: int, group: str) -> torch.Tensor:
    return _sent_to_all(row, ranks, group).clone()


def _sent_to_all(row: torch.Tensor, ranks: int, group: str) -> torch.Tensor:
    counts = [row.numel() // ranks] * ranks
    return _arrived(torch.ops._c10d_functional.all_to_all_single(row, counts, counts, group))


def _arrived(begun: torch.Tensor) -> torch.Tensor:
    return torch.ops._c10d_functional.wait_tensor(begun)


_SENDS = {"all_reduce": _reduced, "all_gather": _gathered, "reduce_scatter": _scattered, "all_to_all": _exchanged}


def _traffic(kind: str, ranks: int) -> float:
    """What goes over the bus for each byte of the whole, as nccl-tests count it."""
    return (2 if kind == "all_reduce" else 1) * (ranks - 1) / ranks


def _rounds(kind: str, ranks: int) -> int:
    """For how many latencies the clock takes a collective at least."""
    return 1 if kind == "all_to_all" else (2 if kind == "all_reduce" else 1) * (ranks - 1)

"""Whether the clock chooses well: rows of one table that differ in how they were run alone, ranked by it and by the watch."""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

LEAST_ROWS = 5
NEAR = 3  # places that count as "among the best"


def ranks(values: list[float]) -> list[float]:
    """The place of each among them; equal ones share theirs."""
    order = sorted(values)
    return [order.index(value) + (order.count(value) - 1) / 2 for value in values]


def spearman(measured: list[float], prices: list[float]) -> float:
    """Spearman's rank correlation; 0 where all of one side are equal."""
    varies = len(set(measured)) > 1 and len(set(prices)) > 1
    return statistics.correlation(ranks(measured), ranks(prices)) if varies else 0.0


def place(values: list[float], number: int) -> int:
    """How many of the values are at most the numbered one's: 1 is the least, and equal ones share the last of their places."""
    return sum(value <= values[number] for value in values)


@dataclass
class Group:
    """Rows of the same work. Seconds, measured and predicted, of each."""

    name: str
    runs: list[str] = field(default_factory=list)  # how each was run
    measured: list[float] = field(default_factory=list)
    prices: list[float] = field(default_factory=list)

    @property
    def correlation(self) -> float:
        return spearman(self.measured, self.prices)

    @property
    def best(self) -> int:
        """The row with the shortest measured step."""
        return self.measured.index(min(self.measured))

    @property
    def choice(self) -> int:
        """The row that is predicted to be fastest."""
        return self.prices.index(min(self.prices))

    @property
    def regret(self) -> float:
        """The measured step of our choice over that of the measured best, less 1."""
        return self.measured[self.choice] / self.measured[self.best] - 1

    def line(self) -> str:
        return (f"{self.name}: {len(self.runs)} rows, rank correlation {self.correlation:.3f}; chosen {self.runs[self.choice]}, measured place "
                f"{place(self.measured, self.choice)}, {100 * self.regret:+.1f} %; measured best {self.runs[self.best]}, our place {place(self.prices, self.best)}")


def grouped(rows: Iterable[tuple[Hashable, str, str, float, float]]) -> list[Group]:
    """Groups of at least LEAST_ROWS rows, in the order of their first ones. Of each row: what it shares with its group, that group's name, how it
    was run, its seconds measured and predicted."""
    found: dict[Hashable, Group] = {}
    for key, name, how, measured, price in rows:
        group = found.setdefault(key, Group(name))
        group.runs.append(how)
        group.measured.append(measured)
        group.prices.append(price)
    return [group for group in found.values() if len(group.runs) >= LEAST_ROWS]


def summary(groups: list[Group]) -> dict[str, float]:
    """How many there are, and, if any: the mean of their rank correlations; the share of those whose measured best is among our first NEAR, and of those
    whose choice is among the measured ones; the mean and the largest regret."""
    if not groups:
        return {"groups": 0}
    regrets = [group.regret for group in groups]
    return {"groups": len(groups), "group_rank_correlation": round(statistics.fmean(group.correlation for group in groups), 4),
            "best_in_top_3": round(statistics.fmean(place(group.prices, group.best) <= NEAR for group in groups), 4),
            "choice_in_top_3": round(statistics.fmean(place(group.measured, group.choice) <= NEAR for group in groups), 4),
            "mean_regret": round(statistics.fmean(regrets), 4), "largest_regret": round(max(regrets), 4)}

"""A plot of lines on logarithmic axes, as SVG: enough for search times, and without a library."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 640, 400, 70, 50, 40, 20
COLOURS = ("#1f77b4", "#d62728", "#2ca02c")


@dataclass
class Series:
    name: str
    points: list[tuple[float, float]]


def decades(values: list[float]) -> tuple[int, int]:
    """The powers of ten around all values."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def write_plot(path: Path, title: str, x_name: str, y_name: str, series: list[Series]) -> None:
    x_low, x_high = decades([x for one in series for x, _ in one.points])
    y_low, y_high = decades([y for one in series for _, y in one.points])

    def at(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - x_low) / (x_high - x_low)
        up = (math.log10(y) - y_low) / (y_high - y_low)
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - BOTTOM - TOP)

    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
             f'<text x="{WIDTH / 2}" y="22" text-anchor="middle" font-size="14">{title}</text>']
    for power in range(x_low, x_high + 1):
        x, y = at(10.0**power, 10.0**y_low)
        lines.append(f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{x:.1f}" y2="{TOP}" stroke="#ddd"/>')
        lines.append(f'<text x="{x:.1f}" y="{y + 16:.1f}" text-anchor="middle">{10.0**power:g}</text>')
    for power in range(y_low, y_high + 1):
        x, y = at(10.0**x_low, 10.0**power)
        lines.append(f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#ddd"/>')
        lines.append(f'<text x="{x - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g}</text>')
    lines.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 12}" text-anchor="middle">{x_name}</text>')
    lines.append(f'<text x="16" y="{HEIGHT / 2}" text-anchor="middle" transform="rotate(-90 16 {HEIGHT / 2})">{y_name}</text>')
    for number, one in enumerate(series):
        colour = COLOURS[number % len(COLOURS)]
        points = [at(x, y) for x, y in one.points]
        lines.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>')
        lines += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
        lines.append(f'<text x="{LEFT + 10}" y="{TOP + 16 + 16 * number}" fill="{colour}">{one.name}</text>')
    path.write_text("\n".join([*lines, "</svg>", ""]), encoding="utf-8")

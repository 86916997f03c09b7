"""Draw losses of train.py: python plot.py OUTPUT.svg LOSSES.txt ..., one curve for each file, named after it."""
import sys
from pathlib import Path

WIDTH, HEIGHT, LEFT, BOTTOM = 640, 400, 50, 40
COLORS = ("#9ecae1", "#08519c", "#d94801", "#238b45")


def main(output: str, *files: str) -> None:
    curves = {Path(file).stem.replace("_", " "): [float(line.split()[1]) for line in Path(file).read_text().splitlines()]
              for file in files}
    steps, top = max(map(len, curves.values())), max(map(max, curves.values()))
    bottom = min(map(min, curves.values()))

    def x(step: float) -> float:
        return LEFT + step / (steps - 1) * (WIDTH - LEFT - 10)

    def y(loss: float) -> float:
        return 10 + (top - loss) / (top - bottom) * (HEIGHT - BOTTOM - 10)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
             f'<text x="{WIDTH / 2}" y="{HEIGHT - 8}" text-anchor="middle">step</text>',
             f'<text x="14" y="{HEIGHT / 2}" text-anchor="middle" transform="rotate(-90 14 {HEIGHT / 2})">loss</text>']
    for step in range(0, steps, max(1, steps // 6)):
        parts.append(f'<text x="{x(step):.1f}" y="{HEIGHT - 24}" text-anchor="middle">{step}</text>')
    for loss in [bottom + (top - bottom) * i / 4 for i in range(5)]:
        parts.append(f'<text x="{LEFT - 6}" y="{y(loss) + 4:.1f}" text-anchor="end">{loss:.2f}</text>')
        parts.append(f'<path d="M{LEFT} {y(loss):.1f}H{WIDTH - 10}" stroke="#ddd"/>')
    for number, (name, losses) in enumerate(curves.items()):
        points = " ".join(f"{x(step):.1f},{y(loss):.1f}" for step, loss in enumerate(losses))
        color, width = COLORS[number % len(COLORS)], 5 if number == 0 else 1.2  # the first one shows behind the others
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="{width}"/>')
        parts.append(f'<path d="M{WIDTH - 150} {30 + 20 * number}h30" stroke="{color}" stroke-width="{width}"/>')
        parts.append(f'<text x="{WIDTH - 112}" y="{34 + 20 * number}">{name}</text>')
    Path(output).write_text("\n".join([*parts, "</svg>"]) + "\n")


main(*sys.argv[1:])

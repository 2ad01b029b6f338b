"""`./run demo`: seven algorithms on the drifting stream of [C] Figure 1, as a table and as a figure.

Every algorithm has its parameters from the same grid, tuned on streams that the demo does not show; `--tune` repeats
that search and prints what it chose. Budgets are equal where an algorithm has one.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import onkel
from onkel import plots
from onkel.core import recipes
from onkel.streams import drifting_mixtures
from onkel.terminal.arguments import whole
from onkel.terminal.escape import for_shell, for_terminal
from onkel.terminal.extras import how, installed
from onkel.terminal.progress import over

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BUDGET = 50
POINTS = 2000
Stream = tuple[np.ndarray, np.ndarray]


class Parameters(NamedTuple):
    sigma: float  # width of the Gaussian kernel
    eta: float  # step, the first one where it adapts
    lam: float  # forgetting
    mu: float = 0.0  # step of the step (SVMD)


GRID = {
    "sigma": (50.0, 80.0, 120.0, 180.0),
    "eta": (0.03, 0.1, 0.3, 1.0, 3.0),
    "lam": (0.003, 0.01, 0.03, 0.1, 0.3),
    "mu": (0.01, 0.1, 1.0),
}
TUNING_SEEDS = range(1000, 1010)  # no stream of the demo

# What `./run demo --tune` prints.
CHOSEN = {
    "ILK": Parameters(sigma=120.0, eta=0.3, lam=0.1),
    "SILK": Parameters(sigma=80.0, eta=0.3, lam=0.1),
    "NORMA": Parameters(sigma=80.0, eta=0.3, lam=0.1),
    "NORMA, truncated": Parameters(sigma=80.0, eta=0.3, lam=0.1),
    "SVMD": Parameters(sigma=80.0, eta=0.1, lam=0.1, mu=0.1),
    "ILK(0)": Parameters(sigma=120.0, eta=1.0, lam=0.0),
    "NORMA(0)": Parameters(sigma=120.0, eta=1.0, lam=0.0),
}
BOUNDED = ("SILK", "NORMA, truncated", "SVMD")


def learner(name: str, p: Parameters) -> Any:
    """The algorithm of that name as onkel's recipe; the margin is 1 for all, as in the paper."""
    if name not in CHOSEN:
        raise ValueError(f"name must be one of {', '.join(CHOSEN)}, got {name!r}")
    budget = BUDGET if name in BOUNDED else None
    return recipes.named(name, onkel.RBF(sigma=p.sigma), onkel.Hinge(rho=1.0), eta=p.eta, lam=p.lam, mu=p.mu, budget=budget)


class Result(NamedTuple):
    """One algorithm on all trials; arrays of shape (trials, points)."""

    mistake: np.ndarray
    eta: np.ndarray
    size: np.ndarray
    seconds: float


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "demo",
        help="seven algorithms on a drifting stream: a table and a figure",
        description="Seven algorithms on the drifting stream of [C] Figure 1, as a table and as a figure.",
    )
    fill(parser)


def fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trials", metavar="N", type=whole, default=100, help="streams to average over (default 100)")
    parser.add_argument(
        "--out", "-o", metavar="FILE", type=Path, default=Path("out/demo.png"), help="figure to write (default out/demo.png)"
    )
    parser.add_argument("--dark", action="store_true", help="light lines on dark paper")
    parser.add_argument("--tune", action="store_true", help="search the grid on other streams and print the parameters")
    parser.set_defaults(run=show)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="onkel demo")
    fill(parser)
    return show(parser.parse_args(argv))


def show(arguments: argparse.Namespace) -> int:
    if arguments.tune:
        for name in CHOSEN:
            print(f"{name!r}: {tune(name)},", flush=True)
        return 0
    streams = [drifting_mixtures(POINTS, seed) for seed in range(arguments.trials)]
    results = run(streams)
    print(table(results), end="\n\n")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    if installed("matplotlib"):
        draw(streams[0], results, arguments.out, "dark" if arguments.dark else "light")
        print(for_terminal(f"Figure: {arguments.out}"))
    else:
        print(f"No figure: matplotlib is not installed; {how('matplotlib')} brings it.")
        return 1
    print("\nTo go on with:" + "".join(f"\n  {command}" for command in leave_files(arguments.out.parent, streams[0])))
    return 0


def leave_files(folder: Path, stream: Stream) -> Iterator[str]:
    """The stream as a table and, where OpenCV is at hand, a short film as frames; the commands that take them."""
    np.savetxt(folder / "drift.csv", np.column_stack(stream), "%.6g", ",", header="x1,x2,class", comments="")
    yield f"onkel run {for_shell(folder / 'drift.csv')} --target class --out {for_shell(folder / 'drift')}"
    if not installed("cv2"):
        return
    import cv2

    from onkel.video.judge.sequences import rectangles

    (folder / "street").mkdir(exist_ok=True)
    for number, (frame, _) in enumerate(rectangles(120, 160, 120)):
        cv2.imwrite(str(folder / "street" / f"{number:04d}.jpg"), frame)
    yield f"onkel video {for_shell(folder / 'street')} --out {for_shell(folder / 'seen.mp4')}"


def run(streams: list[Stream]) -> dict[str, Result]:
    """Every algorithm through every stream, each time from the start."""
    learners = {name: learner(name, parameters) for name, parameters in CHOSEN.items()}
    traces: dict[str, list[Any]] = {name: [] for name in CHOSEN}
    seconds = dict.fromkeys(CHOSEN, 0.0)
    for rule in over(list(learners.values()), "compiled, once"):
        rule.learn(rule.init(), streams[0][0][:2], streams[0][1][:2])  # or loaded from the cache; not part of the time
    for (X, y), name in over(list(itertools.product(streams, CHOSEN)), "runs"):
        rule = learners[name]
        start = time.perf_counter()
        traces[name].append(rule.learn(rule.init(), X, y)[1])
        seconds[name] += time.perf_counter() - start

    def gather(name: str, what: str) -> np.ndarray:
        return np.stack([getattr(trace, what) for trace in traces[name]])

    return {name: Result(*(gather(name, w) for w in ("mistake", "eta", "size")), seconds[name]) for name in CHOSEN}


def tune(name: str, seeds: Iterable[int] = TUNING_SEEDS, grid: dict[str, Sequence[float]] = GRID) -> Parameters:
    """The point of the grid with the fewest mistakes on the tuning streams; only the parameters that the name has."""
    streams = [drifting_mixtures(POINTS, seed) for seed in seeds]
    lam = (0.0,) if name.endswith("(0)") else grid["lam"]
    mu = grid["mu"] if name == "SVMD" else (0.0,)
    candidates = [Parameters(*point) for point in itertools.product(grid["sigma"], grid["eta"], lam, mu)]
    candidates = [point for point in candidates if point.eta * point.lam < 1]

    def mistakes(point: Parameters) -> int:
        rule = learner(name, point)
        return sum(int(rule.learn(rule.init(), X, y)[1].mistake.sum()) for X, y in streams)

    return min(over(candidates, f"settings of {name}"), key=mistakes)


def table(results: dict[str, Result]) -> str:
    """Mistakes with their standard error over the trials, memory and speed, best first; then what the paper asks."""
    trials, points = results["ILK"].mistake.shape
    total = {name: result.mistake.sum(axis=1) for name, result in results.items()}
    most = max(counts.mean() for counts in total.values())
    rows = [f"{'':18}{'mistakes':>10}{'':24}{'points kept':>13}{'us/example':>12}"]
    for name in sorted(total, key=lambda name: total[name].mean()):
        mean, error = total[name].mean(), total[name].std() / np.sqrt(max(trials - 1, 1))
        bar = "█" * round(16 * mean / most)
        kept = results[name].size[:, -1].mean()
        microseconds = 1e6 * results[name].seconds / (trials * points)
        rows.append(f"{name:18}{mean:10.1f} ± {error:<4.1f} {bar:16}{kept:13.0f}{microseconds:12.2f}")
    return "\n".join(
        [
            f"Mistakes in {points} examples, mean of {trials} drifting streams (± standard error)\n",
            *rows,
            "",
            f"Forgetting pays: ILK makes {share(total['ILK'], total['ILK(0)'])} fewer mistakes than ILK(0), "
            f"NORMA {share(total['NORMA'], total['NORMA(0)'])} fewer than NORMA(0).",
            f"ILK against NORMA, stream by stream: better on {(total['ILK'] < total['NORMA']).sum()}, "
            f"equal on {(total['ILK'] == total['NORMA']).sum()}, worse on {(total['ILK'] > total['NORMA']).sum()}.",
        ]
    )


def share(fewer: np.ndarray, more: np.ndarray) -> str:
    """
    >>> share(np.array([75.0]), np.array([100.0]))
    '25 %'
    """
    return f"{100 * (1 - fewer.mean() / more.mean()):.0f} %"


def draw(stream: Stream, results: dict[str, Result], path: Path, theme: str = "light") -> None:
    """The stream, the cumulative mistakes, the step size and the number of points kept, as one figure in a file."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator

    trials, points = results["ILK"].mistake.shape
    curves = {  # title, what to average over the trials, format of the last value
        f"Mistakes so far, mean of {trials} streams": (lambda r: r.mistake.cumsum(axis=1).mean(axis=0), ".0f"),
        "Step size": (lambda r: np.exp(np.log(r.eta).mean(axis=0)), ".2g"),
        "Points kept": (lambda r: r.size.mean(axis=0), ".0f"),
    }
    with plots.style(theme):
        figure = Figure(figsize=(11, 8.4), layout="constrained")
        grid = figure.add_gridspec(3, 2, width_ratios=(1, 1.9), height_ratios=(1.5, 1, 1))
        draw_stream(figure.add_subplot(grid[:, 0]), *stream, theme)
        for row, (title, (curve, _)) in enumerate(curves.items()):
            axes = figure.add_subplot(grid[row, 1], title=title, xlim=(0, points))
            for name, result in results.items():
                plots.line(axes, np.arange(1, points + 1), curve(result), name, theme)
        mistakes, steps, kept = figure.axes[1:]
        mistakes.set_ylim(bottom=0)
        steps.set_yscale("log")
        steps.yaxis.set_major_locator(LogLocator(subs=(1, 3)))
        steps.yaxis.set_major_formatter("{x:g}")
        steps.minorticks_off()
        kept.set(xlabel="examples", ylim=(0, None))
        for axes, (_, last) in zip((mistakes, steps, kept), curves.values()):
            plots.name_lines(axes, last)
        figure.savefig(path)


def draw_stream(axes: Axes, X: np.ndarray, y: np.ndarray, theme: str) -> None:
    """All points, faint; at three moments the latest ones, and how SILK divides the ground around them."""
    hues = {-1.0: plots.colour("grey", theme), 1.0: plots.colour("pink", theme)}  # colours of no algorithm shown
    for label, hue in hues.items():
        axes.scatter(*X[y == label].T, s=4, color=hue, alpha=0.25, linewidth=0)
    rule = learner("SILK", CHOSEN["SILK"])
    state, seen = rule.init(), 0
    for moment in (POINTS // 4, 5 * POINTS // 8, POINTS):
        state, _ = rule.learn(state, X[seen:moment], y[seen:moment])
        latest, labels, seen = X[moment - 120 : moment], y[moment - 120 : moment], moment
        low, high = latest.min(axis=0) - 80, latest.max(axis=0) + 80
        ground = np.stack(np.meshgrid(*np.linspace(low, high, 150).T), axis=-1)
        score = rule.score(state, ground.reshape(-1, 2)).reshape(ground.shape[:2])
        near = ((ground[:, :, None] - latest) ** 2).sum(axis=-1).min(axis=-1) < 80**2
        score = np.where(near, score, np.nan)
        surface = (*np.moveaxis(ground, -1, 0), score)
        axes.contourf(*surface, levels=[-np.inf, 0, np.inf], colors=[*hues.values()], alpha=0.2)
        axes.contour(*surface, levels=[0.0], colors=plots.INK[theme], linewidths=1.6)
        for label, hue in hues.items():
            axes.scatter(*latest[labels == label].T, s=14, color=hue, linewidth=0)
        clear = {"facecolor": plots.PAPER[theme], "alpha": 0.8, "linewidth": 0, "pad": 1}
        axes.annotate(f"after {moment}", (780, low[1] + 40), ha="right", fontsize=11, bbox=clear)
    axes.set(title="The stream, parted by SILK", xlim=(-400, 800), ylim=(0, 3500), aspect="equal")


if __name__ == "__main__":
    sys.exit(main())

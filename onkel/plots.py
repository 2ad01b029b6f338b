"""The look of onkel's figures: light or dark, colours that the colour-blind tell apart, names written at the lines.

Text is large for the size of a figure, so that it can still be read when a page shows the figure at half its width.
matplotlib is imported by the functions that need it, never by importing this module.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

THEMES = ("light", "dark")
INK = {"light": "#1c1c1c", "dark": "#e8e6e3"}
PAPER = {"light": "#ffffff", "dark": "#16181c"}
FAINT = {"light": "#c9c9c9", "dark": "#44484f"}

# After Okabe and Ito, lighter on dark paper.
HUES = {
    "blue": {"light": "#0067a5", "dark": "#4fa9e2"},
    "sky": {"light": "#3a9bd6", "dark": "#9bd3f5"},
    "orange": {"light": "#d55e00", "dark": "#ff8b3d"},
    "yellow": {"light": "#c48a00", "dark": "#f0c23c"},
    "green": {"light": "#00835f", "dark": "#2fc79a"},
    "pink": {"light": "#b8528c", "dark": "#e795c2"},
    "grey": {"light": "#6f6f6f", "dark": "#a5a5a5"},
}
# One algorithm has one colour in every figure; what does without forgetting, or without a margin, is dashed.
HUE_OF = {
    "ILK": "blue",
    "ILK(0)": "blue",
    "SILK": "sky",
    "SILK, merging": "pink",
    "NORMA": "orange",
    "NORMA(0)": "orange",
    "NORMA, truncated": "yellow",
    "NORMA, no margin": "yellow",
    "SVMD": "green",
    "ALMA": "pink",
    "ALMA, no margin": "pink",
    "perceptron": "grey",
}
DASHED = {"ILK(0)", "NORMA(0)", "ALMA, no margin", "NORMA, no margin"}


def colour(name: str, theme: str = "light") -> str:
    """The colour of an algorithm, or of a hue by its name; grey for what is neither.

    >>> colour("ILK") == colour("blue") != colour("blue", "dark")
    True
    """
    return HUES.get(HUE_OF.get(name, name), HUES["grey"])[theme]


@contextmanager
def style(theme: str = "light") -> Iterator[None]:
    """Figures drawn inside `with style(theme):` have onkel's look; matplotlib's own settings stay as they were."""
    import matplotlib as mpl

    ink, paper, faint = INK[theme], PAPER[theme], FAINT[theme]
    settings = {
        "figure.facecolor": paper,
        "figure.dpi": 110,
        "savefig.facecolor": paper,
        "axes.facecolor": paper,
        "axes.edgecolor": faint,
        "axes.labelcolor": ink,
        "axes.labelsize": 12,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlelocation": "left",
        "axes.titlepad": 10,
        "axes.titlesize": 13,
        "axes.titleweight": "bold",
        "font.size": 12,
        "legend.frameon": False,
        "lines.linewidth": 2.0,
        "lines.solid_capstyle": "round",
        "svg.fonttype": "none",
        "svg.hashsalt": "onkel",  # the same figure is the same file
        "text.color": ink,
        "xtick.color": ink,
        "xtick.labelsize": 11,
        "ytick.color": ink,
        "ytick.labelsize": 11,
    }
    with mpl.rc_context(settings):
        yield


def panels(count: int, *, width: float = 4.6, height: float = 3.7, columns: int = 0) -> tuple[Figure, list[Axes]]:
    """A figure of `count` equal panels in a row, or in rows of `columns`."""
    from matplotlib.figure import Figure

    columns = columns or count
    rows = -(-count // columns)
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, [figure.add_subplot(rows, columns, place + 1) for place in range(count)]


def line(axes: Axes, x: Any, y: Any, name: str, theme: str = "light", band: Any = None) -> None:
    """The line of one algorithm, in its colour and stroke; `band` is the half width of a spread around it."""
    hue = colour(name, theme)
    axes.plot(x, y, "--" if name in DASHED else "-", color=hue, label=name)
    if band is not None:
        axes.fill_between(x, np.asarray(y) - band, np.asarray(y) + band, color=hue, alpha=0.15, linewidth=0)


def name_lines(axes: Axes, value: str = "", size: float = 11.0) -> None:
    """Write the label of each line beside its end instead of a legend, pushed apart where they would overlap.

    With a format `value`, such as ".0f", the line's last value follows its name.
    """
    lines = [line for line in axes.get_lines() if not str(line.get_label()).startswith("_")]
    if not lines:
        return
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()  # settles the layout, so that heights are known
    ends, values = [], []
    for line in lines:
        x, y = (np.asarray(data, float) for data in line.get_data())
        last = np.flatnonzero(np.isfinite(y))[-1]
        values.append(y[last])
        ends.append(axes.transAxes.inverted().transform(axes.transData.transform((x[last], y[last])))[1])
    text_height = 1.25 * size * figure.dpi / 72 / axes.get_window_extent().height
    for line, place, y in zip(lines, spread(np.array(ends), text_height, 0.0, 1.0), values):
        axes.annotate(
            f"{line.get_label()}  {y:{value}}" if value else str(line.get_label()),
            (1.0, place),
            xycoords="axes fraction",
            xytext=(6, 0),
            textcoords="offset points",
            verticalalignment="center",
            color=line.get_color(),
            fontsize=size,
            annotation_clip=False,
        )


def spread(places: np.ndarray, gap: float, low: float = -np.inf, high: float = np.inf) -> np.ndarray:
    """The nearest places, by least squares and in the same order, at least `gap` apart and between `low` and `high`.

    With `k gap` taken off the k-th smallest this asks for the nearest ascending sequence: neighbours that descend are
    pooled into their mean until none do, and the result is clipped.

    >>> spread(np.array([1.0, 0.0, 0.1]), gap=0.5).round(3).tolist()
    [1.0, -0.2, 0.3]
    >>> spread(np.array([1.0, 0.0, 0.1]), gap=0.5, low=0.0, high=1.0).round(3).tolist()
    [1.0, 0.0, 0.5]
    """
    order = np.argsort(places, kind="stable")
    pools: list[tuple[float, int]] = []
    for rank, place in enumerate(places[order]):
        mean, count = float(place) - rank * gap, 1
        while pools and pools[-1][0] >= mean:
            other, others = pools.pop()
            mean, count = (mean * count + other * others) / (count + others), count + others
        pools.append((mean, count))
    ascending = np.repeat([mean for mean, _ in pools], [count for _, count in pools])
    last = len(places) - 1
    apart = np.empty(len(places))
    apart[order] = np.clip(ascending, low, max(low, high - last * gap)) + gap * np.arange(last + 1)
    return apart


def run(what: Any, theme: str = "light") -> Figure:
    """A stream as it was learned: the error over time beside "the last one again", points kept, step size, and how sure it was.

    ``what`` is what `onkel run` saved, an estimator that has just learned, its ``trace_``, or several traces in their order.

    >>> import onkel
    >>> X, y = onkel.streams.drifting_mixtures(500, seed=0)
    >>> model = onkel.KernelClassifier(budget=50)
    >>> traces = [model.partial_fit(X[i : i + 100], y[i : i + 100]).trace_ for i in range(0, 500, 100)]
    >>> [axes.get_title(loc="left") for axes in run(traces).axes]
    ['Mistakes, rows of 2 together', 'Points kept', 'Step size']
    """
    found = _of_run(what) if hasattr(what, "tally") else _of_traces(_traces(what))
    wanted = [
        (title, lines) for title, lines in found.panels.items() if any(np.isfinite(values).any() for values in lines.values())
    ]
    with style(theme):
        figure, every = panels(len(wanted), width=9.0, height=2.6, columns=1)
        for axes, (title, lines) in zip(every, wanted):
            axes.set(title=title, xlim=(0, found.rows[-1]))
            for name, values in lines.items():
                thin = {"linewidth": 1.0} if name in QUIET else {}
                axes.plot(found.rows, values, color=colour(QUIET.get(name, "blue"), theme), label=name, **thin)
            for row in found.alarms:
                axes.axvline(row, color=colour("orange", theme), linewidth=1.0, alpha=0.6)
            axes.set_ylim(bottom=0)
            if len(lines) > 1:
                name_lines(axes)
        every[-1].set_xlabel("rows" + (", a line where drift was heard" if len(found.alarms) else ""))
    return figure


QUIET = {"last one again": "grey", "right": "orange", "inside": "orange"}


class Curves(NamedTuple):
    """What :func:`run` draws: panels by title, each of lines by name, over the last rows of windows."""

    rows: np.ndarray
    panels: dict[str, dict[str, np.ndarray]]
    alarms: np.ndarray  # rows in which drift was heard


def _of_run(work: Any) -> Curves:
    rows, curve = work.tally.windows()
    more = work.tally.details()
    error = {"classes": "Mistakes", "reals": "Mean absolute error", "novelty": "Alerts"}[work.task]
    lines = {"the model": curve[:, 0]} | ({} if work.target is None else {"last one again": curve[:, 1]})
    shown = {f"{error}, rows of {work.tally.width} together": lines}
    if work.task == "classes":
        shown["How sure, and how often right"] = {
            "sure": more["claimed"],
            "right": np.where(np.isnan(more["claimed"]), np.nan, 1 - curve[:, 0]),
        }
    elif work.task == "reals":
        shown["Share of targets inside their interval"] = {"inside": more["claimed"]}
    shown |= {"Points kept": {"points": more["points"]}, "Step size": {"eta": more["step_size"]}}
    return Curves(rows, shown, rows[more["drift_alarms"] > 0])


def _traces(what: Any) -> list[Any]:
    trace = getattr(what, "trace_", what)
    traces = [trace] if hasattr(trace, "eta") else list(trace) if isinstance(trace, list | tuple) else []
    if not traces or not all(hasattr(trace, "eta") for trace in traces):
        raise TypeError(
            f"run draws what `onkel run` saved, an estimator that has learned, a trace or several; got {type(what).__name__}"
        )
    return traces


def _of_traces(traces: list[Any]) -> Curves:
    mistake, loss, eta, size = (
        np.concatenate([getattr(trace, name) for trace in traces]) for name in ("mistake", "loss", "eta", "size")
    )
    drift = np.concatenate([getattr(trace, "drift", np.zeros(len(trace.eta), bool)) for trace in traces])
    width = -(-len(eta) // 256)
    starts = np.arange(0, len(eta), width)
    ends = np.minimum(starts + width, len(eta))

    def mean(values: np.ndarray) -> np.ndarray:
        return np.add.reduceat(values.astype(float), starts) / (ends - starts)

    title, error = ("Mistakes", mistake) if mistake.any() else ("Loss", loss)
    shown = {f"{title}, rows of {width} together": {"the model": mean(error)}, "Points kept": {"points": mean(size)}}
    return Curves(ends, {**shown, "Step size": {"eta": mean(eta)}}, np.flatnonzero(drift) + 1)

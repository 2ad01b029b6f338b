"""Explanations as figures: bars of examples and features, or the pictures that spoke for and against a picture."""

from __future__ import annotations

from typing import Any

import numpy as np

from onkel import plots


def _called(reason: Any) -> str:
    label = "" if reason.label is None else f", {reason.label}"
    return f"example {reason.example if reason.id is None else reason.id}{label}"


def as_bars(explanation: Any, n: int, theme: str) -> Any:
    """The strongest examples on the left; on the right, where the kernel splits, the strongest features."""
    speaks_for, against = explanation.top(n)
    rows = [*speaks_for, *reversed(against)]
    try:
        values = explanation.shapley
    except TypeError:
        values = None
    with plots.style(theme):
        figure, axes = plots.panels(1 if values is None else 2, width=5.6, height=1.4 + 0.36 * max(len(rows), 4))
        bars(axes[0], [r.term for r in rows], [_called(r) for r in rows], theme)
        axes[0].set(title=f"{explanation.about} {explanation.score:+.3g}", xlabel="contribution of the example")
        if values is not None:
            strongest = np.argsort(-np.abs(values), kind="stable")[: 2 * n]
            strongest = strongest[np.argsort(-values[strongest], kind="stable")]
            bars(axes[1], values[strongest], [explanation.name(int(j)) for j in strongest], theme)
            axes[1].set(title=f"from {explanation.base:+.3g} without features", xlabel="Shapley value of the feature")
    return figure


def bars(axes: Any, lengths: Any, names: list[str], theme: str) -> None:
    """Horizontal bars, the first on top; what raises is blue, what lowers orange."""
    places = -np.arange(len(names))
    hues = [plots.colour("blue" if length > 0 else "orange", theme) for length in lengths]
    axes.barh(places, lengths, color=hues, height=0.7)
    axes.axvline(0.0, color=plots.FAINT[theme], linewidth=1.0)
    axes.set_yticks(places, names)
    axes.tick_params(axis="y", length=0)


def as_pictures(explanation: Any, n: int, shape: tuple[int, ...], theme: str) -> Any:
    """x first; beside it, above, the pictures that spoke for the score, below those that spoke against it."""
    points, x = explanation.numbers()
    if int(np.prod(shape)) != len(x):
        raise ValueError(f"shape must have {len(x)} pixels, as x has; got {shape!r}")
    sides = explanation.top(n)
    with plots.style(theme):
        figure, axes = plots.panels(2 * (n + 1), width=1.5, height=1.9, columns=n + 1)
        for axis in axes:
            axis.set_axis_off()
        low, high = float(min(points.min(), x.min())), float(max(points.max(), x.max()))
        look = {"cmap": "gray_r" if theme == "light" else "gray", "vmin": low, "vmax": high}
        axes[0].imshow(x.reshape(shape), **look)
        axes[0].set_title(f"{explanation.about}\n{explanation.score:+.3g}", fontsize=9)
        for row, reasons in enumerate(sides):
            for place, reason in enumerate(reasons):
                axis = axes[row * (n + 1) + place + 1]
                axis.imshow(np.asarray(_dense(reason.point), float).reshape(shape), **look)
                who = reason.example if reason.id is None else reason.id
                label = "" if reason.label is None else f"{reason.label} "
                hue = plots.colour("orange" if row else "blue", theme)
                axis.set_title(f"example {who}\n{label}{reason.term:+.2g}", fontsize=9, color=hue)
    return figure


def _dense(point: Any) -> Any:
    return point.toarray()[0] if hasattr(point, "toarray") else point

"""NORMA paper, Figure 2: margin and regularisation on drifting and on switching data.

Positive and negative examples come from mixtures of Gaussians in the plane; what the Bayes classifier gets wrong, or lies
close to its boundary, is removed. Drifting: a small change every 10 of 10,000 examples. Switching: a very large change
every 1000. Cumulative mistakes of NORMA and ALMA, with and without margin, and the perceptron, tuned by hand for each.
"There does not seem to be any decisive differences between the algorithms"; "a positive margin is better than fixing the
margin to zero, and regularisation even with zero margin is better than the basic Perceptron". The mistakes axes end at
3500 (drifting) and 1200 (switching).

Ours: several streams of each kind; every algorithm is tuned over the same kernel widths and its own equally large grid on
held-out streams. ILK, SILK and SVMD are added.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import onkel
from onkel import plots
from onkel.experiments.experiment import Claim, Experiment, Numbers, Part, Setting, fewer, spread
from onkel.experiments.shared.contenders import described, grid, make, mistakes, tune
from onkel.streams import moving_mixtures

STREAMS = {  # eight Gaussians a class, so that the mistakes come near the paper's order of magnitude
    "drifting": partial(moving_mixtures, every=10, change=0.2, gaussians=8, width=0.4),
    "switching": partial(moving_mixtures, every=1000, change=1.0, gaussians=8, width=0.4),
}
PAPERS = ("NORMA", "NORMA, no margin", "ALMA", "ALMA, no margin", "perceptron")
ADDED = ("ILK", "SILK", "SVMD")
BUDGET = 200
HELD_OUT = 1_000_000


def build(name: str, sigma: float, **parameters: Any) -> Any:
    kernel = onkel.RBF(sigma)
    match name:
        case "perceptron":
            return onkel.perceptron(kernel)
        case "ALMA" | "ALMA, no margin":
            return onkel.alma(kernel, **parameters)
        case "NORMA, no margin":
            return make("NORMA", kernel, onkel.Hinge(0.0), **parameters)
        case _:
            return make(name, kernel, onkel.Hinge(1.0), budget=BUDGET if name == "SILK" else None, **parameters)


def candidates(name: str, setting: Setting) -> list[dict[str, Any]]:
    """Twelve candidates per kernel width (full size) for everybody who has something to tune."""
    sigmas = setting.pick((0.3, 0.6, 1.2), (0.6, 1.2), (0.6,))
    if name == "perceptron":
        return grid(sigma=sigmas)
    if name == "ALMA":
        return grid(sigma=sigmas, alpha=setting.pick((0.5, 0.7, 0.8, 0.9), (0.7, 0.9), (0.9,)), C=(0.7, 1.4142, 2.8))
    if name == "ALMA, no margin":
        return grid(sigma=sigmas, alpha=(1.0,), C=np.geomspace(0.2, 10, setting.pick(12, 6, 3)).tolist())
    etas = setting.pick((0.1, 0.3, 1.0), (0.3, 1.0), (1.0,))
    return grid(sigma=sigmas, eta=etas, forget=setting.pick((0.0, 0.003, 0.01, 0.03), (0.0, 0.003, 0.03), (0.0, 0.02)))


def parts(setting: Setting) -> list[Part]:
    n, trials, held_out, tuning = setting.pick((10_000, 10, 2, 4000), (4000, 5, 1, 3000), (2500, 4, 1, 2000))
    arguments = {"n": n, "trials": trials, "held_out": held_out, "tuning": tuning}
    return [
        Part(f"{kind} {name}", trial, {"kind": kind, "name": name, **arguments}, 12.0)
        for kind in STREAMS
        for name in (*PAPERS, *ADDED)
    ]


def trial(setting: Setting, kind: str, name: str, n: int, trials: int, held_out: int, tuning: int) -> Numbers:
    first = 1000 * setting.seed
    held = [STREAMS[kind](tuning, seed=HELD_OUT + first + k) for k in range(held_out)]
    best, _ = tune(lambda **p: build(name, **p), candidates(name, setting), held)
    runs = np.array([mistakes(build(name, **best), *STREAMS[kind](n, seed=first + k)) for k in range(trials)])
    t = np.arange(n // 200, n + 1, n // 200)
    return {
        "parameters": described(best),
        "mistakes": runs.sum(axis=1),
        "t": t,
        "cumulative": runs.cumsum(axis=1)[:, t - 1].mean(axis=0),
    }


def claims(numbers: Numbers) -> list[Claim]:
    made = {(kind, name): numbers[f"{kind} {name}"]["mistakes"] for kind in STREAMS for name in (*PAPERS, *ADDED)}

    def values(*names: str) -> str:
        return "; ".join(
            f"{kind}: " + ", ".join(f"{name} {spread(made[kind, name], digits=0)}" for name in names) for kind in STREAMS
        )

    def ordered(*pairs: tuple[str, str]) -> dict[str, bool]:
        return {
            f"{kind}: {one} below {other}": fewer(made[kind, one], made[kind, other]) for kind in STREAMS for one, other in pairs
        }

    share = {name: made["switching", name].mean() / made["switching", "perceptron"].mean() for name in PAPERS}
    return [
        Claim(
            "A positive margin is better than a margin of zero",
            "the curves with margin end lower",
            values("NORMA", "NORMA, no margin", "ALMA", "ALMA, no margin"),
            ordered(("NORMA", "NORMA, no margin"), ("ALMA", "ALMA, no margin")),
        ),
        Claim(
            "Regularisation even with zero margin is better than the perceptron",
            "the perceptron ends highest; axes to 3500 (drifting) and 1200 (switching)",
            values("NORMA, no margin", "ALMA, no margin", "perceptron"),
            ordered(("NORMA, no margin", "perceptron"), ("ALMA, no margin", "perceptron")),
        ),
        Claim(
            "NORMA works quite well also on switching data",
            "close to the best of the five",
            values("NORMA", "ALMA", "perceptron"),
            {"at most 1.15 times the best of the paper's five, switching": bool(share["NORMA"] <= 1.15 * min(share.values()))},
        ),
        Claim(
            "(not in the paper) The implicit step and the adapted step",
            "-",
            values("NORMA", "ILK", "SILK", "SVMD"),
            ordered(("ILK", "perceptron"), ("SVMD", "perceptron")),
        ),
    ]


def table(numbers: Numbers) -> list[dict[str, str]]:
    return [
        {
            "stream": kind,
            "algorithm": name,
            "mistakes": spread(numbers[f"{kind} {name}"]["mistakes"]),
            "tuned on held-out streams": numbers[f"{kind} {name}"]["parameters"],
        }
        for kind in STREAMS
        for name in (*PAPERS, *ADDED)
    ]


def draw(numbers: Numbers, theme: str):
    figure, axes = plots.panels(2, width=5.6, height=4.4)
    for kind, axis in zip(STREAMS, axes):
        for name in (*PAPERS, *ADDED):
            part = numbers[f"{kind} {name}"]
            plots.line(axis, part["t"], part["cumulative"], name, theme)
        axis.set(title=kind.capitalize(), xlabel="examples", ylabel="mistakes so far", xlim=(0, part["t"][-1]), ylim=(0, None))
        plots.name_lines(axis)
    return figure


EXPERIMENT = Experiment(
    name="norma_fig2",
    paper="NORMA, Figure 2",
    title="Drifting and switching mixtures: margin, regularisation, perceptron",
    shows=__doc__,
    parts=parts,
    claims=claims,
    table=table,
    draw=draw,
    notes=f"SILK keeps {BUDGET} points; the others keep all. Mistakes are means over streams.",
)

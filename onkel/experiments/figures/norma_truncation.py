"""NORMA paper, Proposition 1: what a window leaves out.

If |l'| <= C and ||k(x, .)|| <= X, dropping all but the last w terms of NORMA's expansion changes f by less than
(1 - lambda eta)^w C X / lambda in norm, so the error falls exponentially with the window. The paper proves it and shows no
figure.

Ours: NORMA with the hinge loss on drifting mixtures; the norm of what a window leaves out of f at the end of the stream,
beside the bound (with the finite sum up to t), and the mistakes of NORMA that truly runs with that window.
"""

from __future__ import annotations

import numpy as np

import onkel
from onkel import plots
from onkel.experiments.experiment import Claim, Experiment, Numbers, Part, Setting
from onkel.experiments.shared.contenders import mistakes
from onkel.streams import drifting_mixtures
from onkel.theory import truncation_error

ETA, SIGMA = 0.3, 150.0
FORGETS = (0.003, 0.01, 0.03)


def parts(setting: Setting) -> list[Part]:
    trials = setting.pick(20, 5, 3)
    return [Part(f"eta lambda = {forget:g}", run, {"forget": forget, "trials": trials}, 3.0) for forget in FORGETS]


def run(setting: Setting, forget: float, trials: int) -> Numbers:
    lam, n = forget / ETA, 2000
    windows = np.unique(np.geomspace(1, 1500, 25).round().astype(int))
    kernel = onkel.RBF(SIGMA)
    left_out, wrong = np.zeros((trials, len(windows))), np.zeros((trials, len(windows)))
    whole = np.zeros(trials)
    for k in range(trials):
        X, y = drifting_mixtures(n, seed=1000 * setting.seed + k)
        learner = onkel.norma(kernel, onkel.Hinge(1.0), eta=ETA, lam=lam)
        state, trace = learner.learn(learner.init(), X, y)
        whole[k] = np.sum(trace.mistake)
        times = np.flatnonzero(y * np.asarray(trace.scores) <= 1.0)  # an example is stored when its margin is at most 1
        points, coef = np.asarray(state.points), np.asarray(state.coef)
        distance = ((points[:, None] - points[None]) ** 2).sum(-1)
        gram = np.exp(-distance / (2 * SIGMA**2))
        for i, window in enumerate(windows):
            old = times < n - window
            left_out[k, i] = np.sqrt(max(coef[old] @ gram[np.ix_(old, old)] @ coef[old], 0.0))
            wrong[k, i] = mistakes(onkel.norma(kernel, onkel.Hinge(1.0), eta=ETA, lam=lam, window=int(window)), X, y).sum()
    return {
        "window": windows,
        "left_out": left_out.max(axis=0),
        "bound": np.array([truncation_error(int(w), eta=ETA, lam=lam, t=n) for w in windows]),
        "limit": np.array([truncation_error(int(w), eta=ETA, lam=lam) for w in windows]),
        "mistakes": wrong.mean(axis=0),
        "whole": whole.mean(),
        "forget": forget,
    }


def slope(part: Numbers) -> float:
    """Fitted decrease of log error per step of the window, over that of the bound."""
    use = (part["left_out"] > 1e-9) & (part["window"] <= 1000)
    fitted = np.polyfit(part["window"][use], np.log(part["left_out"][use]), 1)[0]
    return float(fitted / np.log1p(-part["forget"]))


def claims(numbers: Numbers) -> list[Claim]:
    share = {name: float(np.max(part["left_out"] / part["bound"])) for name, part in numbers.items()}
    slopes = {name: slope(part) for name, part in numbers.items()}
    enough = {name: int(part["window"][np.argmax(part["mistakes"] <= 1.02 * part["whole"])]) for name, part in numbers.items()}
    return [
        Claim(
            "What the window leaves out is smaller than the bound",
            "< (1 - lambda eta)^w C X / lambda",
            ", ".join(f"at most {100 * value:.0f} % of it ({name})" for name, value in share.items()),
            {name: value < 1 for name, value in share.items()},
        ),
        Claim(
            "The error falls exponentially with the window, at the rate 1 - lambda eta",
            "rate 1",
            ", ".join(f"{value:.2f} times that rate ({name})" for name, value in slopes.items()),
            {name: 0.8 <= value <= 1.3 for name, value in slopes.items()},
        ),
        Claim(
            "(not in the paper) A window of a few times 1/(lambda eta) costs no mistakes",
            "-",
            ", ".join(f"{window} steps are within 2 % of no window ({name})" for name, window in enough.items()),
            {name: window <= 5 / numbers[name]["forget"] for name, window in enough.items()},
        ),
    ]


def draw(numbers: Numbers, theme: str):
    figure, (left, right) = plots.panels(2, width=5.4, height=4.2)
    for part, hue in zip(numbers.values(), ("blue", "green", "orange")):
        tint = plots.colour(hue, theme)
        left.plot(part["window"], part["left_out"], color=tint, label=f"$\\eta\\lambda$ = {part['forget']:g}")
        left.plot(part["window"], part["bound"], color=tint, linestyle=":", linewidth=1.5)
        right.plot(part["window"], part["mistakes"], color=tint, label=f"$\\eta\\lambda$ = {part['forget']:g}")
        right.axhline(part["whole"], color=tint, linestyle=":", linewidth=1.2)
    left.set(title="Left out, in norm (dotted: the bound)", xlabel="window", yscale="log", ylim=(1e-5, None), xlim=(0, 1000))
    right.set(title="Mistakes (dotted: no window)", xlabel="window", xscale="log", ylim=(0, None))
    left.legend(labelcolor="linecolor")
    plots.name_lines(right)
    return figure


EXPERIMENT = Experiment(
    name="norma_truncation",
    paper="NORMA, Proposition 1",
    title="Truncation error against the window",
    shows=__doc__,
    parts=parts,
    claims=claims,
    draw=draw,
)

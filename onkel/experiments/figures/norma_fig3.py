"""NORMA paper, Figure 3: which USPS digits are novel.

Novelty detection in one pass, rbf kernel with 2 sigma^2 = 0.5 d = 128, nu = 0.01, eta_t = 1/sqrt(t). Left: the first 50
patterns with a margin error; at first even well-formed digits are novel, later only unusual ones. Middle: the 50 worst
training patterns by f(x) - rho, mostly badly written. Right: the 50 worst of an unseen test set.

Ours: 5000 training and 2000 test digits as in the paper. With lambda = 1 and eta_t = 1/sqrt(t) an alert is forgotten after some
sqrt(t) examples, so a second row takes eta_t = s/sqrt(t) with the s, out of five, whose alert rate over the first half of
the pass comes closest to nu; the lower pictures show that row. "Badly written" is measured without the detector: how many of the
five nearest training images show another digit, and how far away they are.
"""

from __future__ import annotations

import numpy as np

import onkel
from onkel import data, plots
from onkel.experiments.experiment import Claim, Experiment, Numbers, Part, Setting
from onkel.experiments.shared import images

NU, SHOWN = 0.01, 50
SCALES = (1.0, 0.3, 0.1, 0.03, 0.01)


def parts(setting: Setting) -> list[Part]:
    return [Part("paper", detect, {"scales": (1.0,)}, 3.0), Part("tuned", detect, {"scales": SCALES}, 5.0)]


def digits(setting: Setting) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    if setting.full:
        loaded = data.load("usps", directory=setting.directory)
        (X, y), (Z, z) = loaded.train(), loaded.test()
        return X[:5000], y[:5000], Z[:2000], z[:2000]
    X, y = images.usps(setting)
    cut = 2 * len(y) // 3
    return X[:cut], y[:cut], X[cut:], y[cut:]


def detect(setting: Setting, scales: tuple[float, ...]) -> Numbers:
    X, y, Z, z = digits(setting)

    def run(scale: float):
        learner = onkel.norma(onkel.RBF(images.width(X)), onkel.Novelty(0.01), eta=onkel.InvSqrt(scale), lam=1.0, nu=NU)
        return learner, *learner.learn(learner.init(), X, None)

    def off(scale: float) -> float:
        return abs(np.mean(np.asarray(run(scale)[2].loss)[: len(X) // 2] > 0) - NU)

    scale = min(scales, key=off)
    learner, state, trace = run(scale)
    alerts = np.flatnonzero(np.asarray(trace.loss) > 0)
    worst, unseen = (np.argsort(learner.score(state, points))[:SHOWN] for points in (X, Z))
    strange, far = strangeness(X, y, X, y, itself=True)
    strange_unseen, far_unseen = strangeness(X, y, Z, z)
    side = round(np.sqrt(X.shape[1]))
    return {
        "scale": scale,
        "alerts": alerts,
        "rate": len(alerts) / len(X),
        "late rate": np.mean(alerts >= len(X) // 2) * len(alerts) / (len(X) - len(X) // 2),
        "first images": X[alerts[:SHOWN]].reshape(-1, side, side),
        "worst images": X[worst].reshape(-1, side, side),
        "unseen images": Z[unseen].reshape(-1, side, side),
        "strange": np.array([strange.mean(), strange[worst].mean(), strange_unseen.mean(), strange_unseen[unseen].mean()]),
        "far": np.array([np.mean(rank(far)[worst]), np.mean(rank(far_unseen)[unseen])]),
        "far of alerts": rank(far)[alerts],
    }


def strangeness(X, y, Z, z, itself: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Share of the five nearest of X with another label, and their mean distance, for each row of Z."""
    squared = (X**2).sum(1)[None] + (Z**2).sum(1)[:, None] - 2 * Z @ X.T
    if itself:
        np.fill_diagonal(squared, np.inf)
    near = np.argpartition(squared, 5, axis=1)[:, :5]
    distance = np.sqrt(np.maximum(np.take_along_axis(squared, near, axis=1), 0)).mean(axis=1)
    return (y[near] != z[:, None]).mean(axis=1), distance


def rank(values: np.ndarray) -> np.ndarray:
    """Each value's percentile."""
    return 100 * np.argsort(np.argsort(values)) / (len(values) - 1)


ROWS = {"paper": "paper's step", "tuned": "tuned step"}


def claims(numbers: Numbers) -> list[Claim]:
    def both(text) -> str:
        return "; ".join(f"{label}: {text(numbers[row])}" for row, label in ROWS.items())

    def check(**tests) -> dict[str, bool]:
        return {f"{name.replace('_', ' ')}, {l}": bool(test(numbers[r])) for name, test in tests.items() for r, l in ROWS.items()}

    def drift(part: Numbers) -> tuple[float, float]:
        far = part["far of alerts"]
        return far[:10].mean(), far[len(far) // 2 :].mean()

    return [
        Claim(
            "At first even well-formed digits are novel, later only unusual ones",
            "seen in the picture",
            both(
                lambda p: (
                    "distance to the nearest images at percentile "
                    f"{drift(p)[0]:.0f} (first 10 alerts), {drift(p)[1]:.0f} (later half)"
                )
            ),
            check(
                later_alerts_farther_out=lambda p: drift(p)[1] > drift(p)[0] + 10,
                later_alerts_above_the_75th=lambda p: drift(p)[1] > 75,
            ),
        ),
        Claim(
            "The 50 worst training patterns are mostly badly written digits",
            "seen in the picture",
            both(
                lambda p: (
                    f"{100 * p['strange'][1]:.0f} % of their nearest images show another digit "
                    f"(all: {100 * p['strange'][0]:.0f} %), percentile {p['far'][0]:.0f} of distance"
                )
            ),
            check(
                another_digit_near_twice_as_often=lambda p: p["strange"][1] > 2 * p["strange"][0],
                above_the_75th_percentile=lambda p: p["far"][0] > 75,
            ),
        ),
        Claim(
            "So are the 50 worst of an unseen test set",
            "seen in the picture",
            both(lambda p: f"{100 * p['strange'][3]:.0f} % (all: {100 * p['strange'][2]:.0f} %), percentile {p['far'][1]:.0f}"),
            check(
                another_digit_near_twice_as_often=lambda p: p["strange"][3] > 2 * p["strange"][2],
                above_the_75th_percentile=lambda p: p["far"][1] > 75,
            ),
        ),
        Claim(
            "nu = 0.01 fixes the fraction of detected outliers",
            "1 %",
            both(lambda p: f"{100 * p['rate']:.1f} % of the pass, {100 * p['late rate']:.1f} % of its second half"),
            check(between_half_and_twice_nu=lambda p: 0.5 * NU <= p["late rate"] <= 2 * NU),
        ),
    ]


def draw(numbers: Numbers, theme: str):
    figure, axes = plots.panels(6, width=4.4, height=2.7, columns=3)
    keys = ("first images", "worst images", "unseen images")
    titles = ("first 50 alerts", "50 worst, training", "50 worst, unseen")
    for k, axis in enumerate(axes):
        row = tuple(ROWS)[k // 3]
        images.sheet(axis, numbers[row][keys[k % 3]], 10, theme)
        axis.set_title(f"{ROWS[row].capitalize()}: {titles[k % 3]}", fontsize=11)
    return figure


EXPERIMENT = Experiment(
    name="norma_fig3",
    paper="NORMA, Figure 3",
    title="Novelty detection on USPS: the digits that stand out",
    shows=__doc__,
    parts=parts,
    claims=claims,
    draw=draw,
    needs=("usps",),
)

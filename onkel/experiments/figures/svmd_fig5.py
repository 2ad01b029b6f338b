"""SVMD paper, Figure 5: the counting sequence.

To create a highly non-stationary problem the paper takes 600 samples of each USPS digit and presents them in the order of
a three-digit decimal counter that runs twice from 000 to 999. '0' is very frequent early and rare towards the end.

Ours: USPS's training part holds only 542 eights and 556 fives, so 600 of each need the training and test parts pooled.
"""

from __future__ import annotations

import numpy as np

from onkel import plots
from onkel.experiments.experiment import Claim, Experiment, Numbers, Part, Setting
from onkel.experiments.shared import images


def parts(setting: Setting) -> list[Part]:
    return [Part("sequence", sequence, cost=0.5)]


def sequence(setting: Setting) -> Numbers:
    X, y = images.counting(setting, setting.seed)
    run = len(y) // setting.pick(2, 6, 3)
    window = run // 10
    shares = [[np.mean(y[k : k + window] == digit) for digit in range(10)] for k in range(0, len(y) - window + 1, window)]
    return {
        "first": X[:60],
        "counts": np.bincount(y, minlength=10),
        "labels": y,
        "shares": np.array(shares),
        "window": window,
        "run": run,
        "distinct": len(np.unique(X, axis=0)),
    }


def claims(numbers: Numbers) -> list[Claim]:
    part = numbers["sequence"]
    each, run, labels = part["counts"], part["run"], part["labels"]
    places = 3 if run == 3000 else 2
    counter = [f"{k:0{places}d}" for k in range(10**places)] * (len(labels) // run)
    early, late = part["shares"][0, 0], part["shares"][run // part["window"] - 1, 0]
    return [
        Claim(
            "600 samples of each digit in the order of a counter",
            "600 of each, 000 to 999 twice",
            f"{each.min()} to {each.max()} of each, {part['distinct']} different images",
            {
                "equally many of each digit": bool(each.min() == each.max()),
                "the labels read off as a counter": "".join(map(str, labels)) == "".join(counter),
            },
        ),
        Claim(
            "'0' is very frequent early in the sequence but rare towards the end",
            "no number",
            f"{100 * early:.0f} % of the first tenth of a run, {100 * late:.0f} % of its last",
            {"at least three times as frequent": bool(early >= 3 * late)},
        ),
    ]


def draw(numbers: Numbers, theme: str):
    part = numbers["sequence"]
    figure, (left, right) = plots.panels(2, width=5.4, height=4.0)
    side = round(np.sqrt(part["first"].shape[1]))
    images.sheet(left, part["first"].reshape(-1, side, side), 12, theme)
    left.set_title("The first 60 images")
    shares = part["shares"]
    edges = np.arange(len(shares) + 1) * part["window"]
    mesh = right.pcolormesh(edges, np.arange(11) - 0.5, 100 * shares.T, cmap="cividis", rasterized=True)
    right.set(title="Share of each digit, %", xlabel="examples", ylabel="digit", yticks=range(10))
    bar = figure.colorbar(mesh, ax=right)
    bar.outline.set_visible(False)
    return figure


EXPERIMENT = Experiment(
    name="svmd_fig5",
    paper="SVMD, Figure 5",
    title="The counting sequence, drawn",
    shows=__doc__,
    parts=parts,
    claims=claims,
    draw=draw,
    needs=("usps",),
)

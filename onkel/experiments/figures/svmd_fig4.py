"""SVMD paper, Figure 4: USPS, all ten classes.

One pass, soft margin loss, eta_0 = 0.1, mu = 0.1, c = 1/(500 n), buffer 512. SVMD with trace decay 0.99 makes only about
half as many errors as the scheduled step (tau = 100); with decay 0 it falls in between. SVMD raises its step
significantly above the 0.1 it starts from.

Ours: file order and random orders.
"""

from __future__ import annotations

import numpy as np

from onkel.experiments.experiment import Claim, Numbers, Setting
from onkel.experiments.shared import images
from onkel.experiments.shared import step_adaptation as steps


def stream(setting: Setting, order: int) -> tuple[np.ndarray, np.ndarray]:
    X, y = images.usps(setting)
    rows = images.orders(len(y), order + 1, setting.seed)[order]
    return X[rows], y[rows]


PROBLEM = steps.Problem(stream, binary=False, eta=0.1, mu=0.1, decay=0.99, tau=100.0)


def claims(numbers: Numbers) -> list[Claim]:
    ratio = steps.ratio(PROBLEM, numbers, "SVMD", "schedule")
    raised = float(numbers["SVMD"]["eta"].max() / PROBLEM.eta)
    return [
        Claim(
            "SVMD makes only about half as many errors as the scheduled step",
            "about 0.5 times",
            f"{ratio:.2f} times; {steps.values(PROBLEM, numbers, 'SVMD', 'schedule')}",
            {"at most 0.65 times, papers' parameters": ratio <= 0.65, **steps.below(PROBLEM, numbers, "SVMD", "schedule")},
        ),
        Claim(
            "Trace decay 0 falls in between",
            "between the two",
            steps.values(PROBLEM, numbers, *steps.RULES),
            {
                **steps.below(PROBLEM, numbers, "SVMD", "SVMD, decay 0"),
                **steps.below(PROBLEM, numbers, "SVMD, decay 0", "schedule"),
            },
        ),
        Claim(
            "SVMD raises its step significantly above the initial one",
            "above 0.1",
            f"up to {raised:.1f} times the initial step",
            {"at least twice the initial step": raised >= 2},
        ),
    ]


EXPERIMENT = steps.experiment(
    PROBLEM,
    claims,
    name="svmd_fig4",
    paper="SVMD, Figure 4",
    title="USPS, ten classes: adapted against scheduled step",
    shows=__doc__,
)

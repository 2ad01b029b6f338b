"""What Figures 3, 4 and 6 of the SVMD paper share: SVMD, SVMD with trace decay 0 and a scheduled step, on one stream.

All three start from the same step. Left the current average error, right the step size, over one pass. With the nu-trick
c = 1 and the margin epsilon adapts; where it starts the paper does not say, so several starts are run. The scheduled
control is NORMA with eta_t = eta_0 sqrt(tau / (tau + t)), whose margin moves by the same scheduled step.

The tuned row gives each rule a grid of the same size, searched on the first part of the first stream: eta_0 and, for
the nu-problems, the start of epsilon are the same for all three; mu for the adapted steps faces tau for the schedule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

import onkel
from onkel import plots
from onkel.experiments.experiment import Claim, Experiment, Numbers, Part, Setting, fewer, spread

from . import images
from .contenders import curve, described, grid, tune

NOTES = __doc__.split("\n\n")[1].replace("\n", " ")
RULES = ("SVMD", "SVMD, decay 0", "schedule")
HUES = {"SVMD": "green", "SVMD, decay 0": "blue", "schedule": "orange"}
BUDGET = 512


@dataclass(frozen=True)
class Problem:
    """The parameters that the paper states for one figure; `nu` None means the plain margin of 1 and c = 1/(500 n)."""

    stream: Callable[[Setting, int], tuple[np.ndarray, np.ndarray]]  # setting, number of the order -> X, y
    binary: bool
    eta: float
    mu: float
    decay: float
    tau: float
    nu: float | None = None

    def learner(self, rule: str, X: np.ndarray, n: int, *, eta: float, epsilon: float = 1.0, mu: float, tau: float) -> Any:
        kernel = onkel.RBF(images.width(X))
        lam = 1.0 if self.nu else 1 / (500 * n)
        if rule == "schedule":
            return onkel.norma(kernel, self.loss(epsilon), eta=onkel.SqrtDecay(eta, tau), lam=lam, nu=self.nu, budget=BUDGET)
        decay = self.decay if rule == "SVMD" else 0.0
        return onkel.svmd(kernel, self.loss(1.0), eta=eta, lam=lam, mu=mu, decay=decay, nu=self.nu, budget=BUDGET, epsilon=epsilon)

    def loss(self, rho: float) -> Any:
        return onkel.Hinge(rho) if self.binary else onkel.Structured(onkel.Labels.flat(10), rho=rho)


def experiment(problem: Problem, claims: Callable[[Numbers], list[Claim]], name: str, **about: str) -> Experiment:
    """The figure of one problem: its runs, its curves and its table; what is claimed is the figure's own.

    The problem stands as PROBLEM in the figure's file, where the processes that compute its parts find it by the figure's name.
    """
    return Experiment(
        name=name,
        parts=partial(parts, problem, name),
        claims=claims,
        table=table,
        draw=partial(draw, problem),
        needs=("usps",),
        **about,  # type: ignore[arg-type]
    )


def parts(problem: Problem, figure: str, setting: Setting) -> list[Part]:
    """Each rule with the paper's parameters (from each start of epsilon), then tuned."""
    orders = setting.pick(5, 5, 3)
    found = []
    for rule in RULES:
        for epsilon in starts(problem):
            arguments = {"figure": figure, "rule": rule, "orders": orders, "epsilon": epsilon, "tuned": False}
            found.append(Part(run_name(problem, rule, epsilon), run, arguments, 3.0))
        found.append(Part(f"{rule}, tuned", run, {**arguments, "epsilon": 1.0, "tuned": True}, 8.0))
    return found


def starts(problem: Problem) -> tuple[float, ...]:
    return (0.01, 0.1, 1.0) if problem.nu else (1.0,)


def run_name(problem: Problem, rule: str, epsilon: float) -> str:
    return f"{rule}, epsilon {epsilon:g}" if problem.nu else rule


def main_run(problem: Problem, rule: str) -> str:
    """The run that the figure draws: epsilon starts at .01, which comes closest to the paper."""
    return run_name(problem, rule, starts(problem)[0])


def run(setting: Setting, figure: str, rule: str, orders: int, epsilon: float, tuned: bool) -> Numbers:
    problem: Problem = import_module(f"onkel.experiments.figures.{figure}").PROBLEM
    parameters = {"eta": problem.eta, "epsilon": epsilon, "mu": problem.mu, "tau": problem.tau}
    if tuned:
        parameters |= search(problem, setting, rule)
    errors, first = [], None
    for order in range(orders):
        X, y = problem.stream(setting, order)
        learner = problem.learner(rule, X, len(y), **parameters)
        trace = learner.learn(learner.init(), X, y)[1]
        errors.append(np.mean(trace.mistake))
        first = first or trace
    t, error = curve(np.asarray(first.mistake, float))
    shown = {k: v for k, v in parameters.items() if k != ("mu" if rule == "schedule" else "tau")}
    if not problem.nu:
        shown.pop("epsilon")
    return {
        "t": t,
        "error": error,
        "eta": np.asarray(first.eta)[t - 1],
        "final": np.array(errors),
        "parameters": described(shown),
    }


def search(problem: Problem, setting: Setting, rule: str) -> dict[str, Any]:
    X, y = problem.stream(setting, 0)
    first = setting.pick(2000, 500, 300)
    own = {"tau": (1.0, 10.0, 100.0, 1000.0)} if rule == "schedule" else {"mu": (0.01, 0.1, 0.3, 1.0)}
    axes = {"eta": (0.03, 0.1, 0.3, 1.0), **own}
    if problem.nu:
        axes["epsilon"] = (0.01, 0.1, 1.0)
    spare = {"tau": problem.tau} if "mu" in own else {"mu": problem.mu}
    best, _ = tune(lambda **p: problem.learner(rule, X, len(y), **spare, **p), grid(**axes), [(X[:first], y[:first])])
    return best


# --- what the claims are made of -----------------------------------------------------------------------------


def values(problem: Problem, numbers: Numbers, *rules: str) -> str:
    """Errors of the rules in both rows, as text."""
    paper = ", ".join(f"{rule} {spread(numbers[main_run(problem, rule)]['final'], 100)} %" for rule in rules)
    tuned = ", ".join(f"{rule} {spread(numbers[f'{rule}, tuned']['final'], 100)} %" for rule in rules)
    return f"papers' parameters: {paper}; tuned: {tuned}"


def below(problem: Problem, numbers: Numbers, one: str, other: str) -> dict[str, bool]:
    """Is the first rule's error lower, with the papers' parameters and tuned?"""
    return {
        f"{one} below {other}, papers' parameters": fewer(
            numbers[main_run(problem, one)]["final"], numbers[main_run(problem, other)]["final"]
        ),
        f"{one} below {other}, tuned": fewer(numbers[f"{one}, tuned"]["final"], numbers[f"{other}, tuned"]["final"]),
    }


def ratio(problem: Problem, numbers: Numbers, one: str, other: str) -> float:
    return float(np.mean(numbers[main_run(problem, one)]["final"]) / np.mean(numbers[main_run(problem, other)]["final"]))


def table(numbers: Numbers) -> list[dict[str, str]]:
    return [
        {"run": name, "average error %": spread(part["final"], 100, 2), "parameters": part["parameters"]}
        for name, part in numbers.items()
    ]


def draw(problem: Problem, numbers: Numbers, theme: str) -> Any:
    figure, (left, right) = plots.panels(2, width=5.4, height=4.0)
    for rule in RULES:
        hue = plots.colour(HUES[rule], theme)
        part, tuned = numbers[main_run(problem, rule)], numbers[f"{rule}, tuned"]
        left.plot(part["t"], 100 * part["error"], color=hue, label=rule)
        left.plot(tuned["t"], 100 * tuned["error"], ":", color=hue, label=f"{rule}, tuned")
        right.plot(part["t"], part["eta"], color=hue, label=rule)
    left.set(title="Current average error, %", xlabel="examples", xscale="log", xlim=(5, part["t"][-1]), ylim=(0, None))
    right.set(title="Step size", xlabel="examples", xscale="log", yscale="log")
    plots.name_lines(left, ".1f")
    plots.name_lines(right)
    return figure

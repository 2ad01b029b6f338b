"""The papers as recipes: each is one combination of the same parts."""

from __future__ import annotations

import re
from inspect import signature
from typing import Any

from onkel.core.learner import Learner
from onkel.core.maths.budget import Budget
from onkel.core.maths.losses import Hinge
from onkel.core.maths.schedules import Schedule
from onkel.core.maths.steps import Adaptive, Alma, Explicit, Implicit


def norma(
    kernel: Any,
    loss: Any,
    *,
    eta: Schedule = 0.1,
    lam: float = 0.01,
    C: float = 1.0,
    budget: int | None = None,
    window: Any = None,
    nu: float | None = None,
    offset: bool = False,
) -> Learner:
    """NORMA [K]: explicit gradient steps, f <- (1 - eta lam) f - eta C loss'(f(x)) k(x, .).

    ``budget`` keeps the last non-zero terms (truncated NORMA of [C]), ``window`` the terms of the last time steps ([K] Fig. 1)
    or, as a function of t, the growing schedule of [K] Theorem 6.  ``nu`` moves the loss's margin or tube so that a share nu of
    the examples violates it (the sign follows [V]; [K] prints ascent).
    """
    return Learner(kernel, loss, Explicit(eta, lam, C), Budget(budget, "oldest", window), nu, offset)


def ilk(kernel: Any, loss: Any, *, eta: Schedule = 1.0, lam: float = 0.01, C: float = 1.0, exact: bool = False) -> Learner:
    """ILK [C]: implicit steps, f <- argmin_g 1/2 |g - f|^2 + eta (lam/2 |g|^2 + C loss(g(x)))."""
    return Learner(kernel, loss, Implicit(eta, lam, C, exact))


def silk(
    kernel: Any,
    loss: Any,
    *,
    eta: Schedule = 1.0,
    lam: float = 0.01,
    C: float = 1.0,
    budget: int = 128,
    drop: str = "smallest",
    exact: bool = False,
) -> Learner:
    """SILK [C]: ILK with at most ``budget`` points; the smallest coefficient goes, or is merged or projected (see Budget)."""
    return Learner(kernel, loss, Implicit(eta, lam, C, exact), Budget(budget, drop))


def svmd(
    kernel: Any,
    loss: Any,
    *,
    eta: float = 0.1,
    lam: float = 0.01,
    mu: float = 0.1,
    decay: float = 0.95,
    budget: int | None = None,
    nu: float | None = None,
    offset: bool = False,
    epsilon: float = 1.0,
    eta_min: float | None = None,
    eta_max: float | None = None,
    implicit: bool = False,
) -> Learner:
    """SVMD [V]: explicit steps whose size adapts itself by meta-descent in the kernel's own space.

    ``lam`` is the paper's c, ``decay`` its lambda, ``epsilon`` where the margin starts with ``nu``.  ``implicit`` takes the
    step of ILK instead, with the same adaptation (docs/maths.md).
    """
    step = Adaptive(eta, lam, 1.0, mu, decay, epsilon, eta_min, eta_max, implicit)
    return Learner(kernel, loss, step, Budget(budget), nu, offset)


def perceptron(kernel: Any, *, budget: int | None = None) -> Learner:
    """The kernel perceptron: on y f(x) <= 0, f <- f + y k(x, .)."""
    return Learner(kernel, Hinge(rho=0.0), Explicit(eta=1.0, lam=0.0), Budget(budget))


def pa(kernel: Any, *, C: float = 1.0, budget: int | None = None) -> Learner:
    """Passive-aggressive PA-I: ILK without forgetting, f <- f + y min(C, hinge / k(x,x)) k(x, .)."""
    return Learner(kernel, Hinge(rho=1.0), Implicit(eta=1.0, lam=0.0, C=C), Budget(budget))


def alma(kernel: Any, *, alpha: float = 0.9, B: float | None = None, C: float | None = None) -> Learner:
    """ALMA [G] with p = 2 in the kernel's space; alpha = 1 is ALMA_0.  B = sqrt(8)/alpha and C = sqrt(2) where not given."""
    return Learner(kernel, Hinge(rho=1.0), Alma(alpha, B, C))


RECIPES = {recipe.__name__: recipe for recipe in (norma, ilk, silk, svmd, perceptron, pa, alma)}


def named(name: str, kernel: Any, loss: Any, **options: Any) -> Learner:
    """The algorithm that a table or a figure calls ``name``: its first word is the recipe, which takes those options that it has.

    >>> from onkel.core.maths.kernels import RBF
    >>> named("NORMA, truncated", RBF(), Hinge(), eta=0.3, mu=0.1, budget=50) == norma(RBF(), Hinge(), eta=0.3, budget=50)
    True
    """
    word = re.match(r"\w*", name.lower())[0]  # type: ignore[index]
    if word not in RECIPES:
        raise ValueError(f"{name!r}: the first word must be one of {', '.join(RECIPES)}")
    recipe = RECIPES[word]
    takes = signature(recipe).parameters
    return recipe(kernel, *((loss,) if "loss" in takes else ()), **{key: value for key, value in options.items() if key in takes})

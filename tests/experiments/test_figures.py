"""Each experiment in a tiny form: it runs, draws, and its claims come out as they should for a sound algorithm.

The second half breaks an algorithm on purpose and asks that a verdict turns.
"""

import functools
import io

import numpy as np
import pytest

import onkel
from onkel import plots
from onkel.core import recipes
from onkel.experiments import NAMES, figure, runner
from onkel.experiments.experiment import Setting
from onkel.experiments.figures import norma_alert_rate
from onkel.experiments.shared import contenders

TINY = Setting("tiny")


def numbers_of(name: str, folder) -> dict:
    found = {}
    experiment = figure(name)
    failed = runner.run([experiment], TINY, folder, finished=lambda e, parts: found.update(e.combine(parts)))
    assert not failed, failed[name]
    return found


@pytest.fixture(scope="session")
def numbers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    kept = {}

    def get(name: str) -> dict:
        if name not in kept:
            kept[name] = numbers_of(name, folder)
        return kept[name]

    return get


# Which claims (by place) a sound algorithm fulfils even in the tiny form, each check of them.
HOLD = {
    "ilk_fig1": (1, 3),
    "ilk_fig4": (0, 1, 3),
    "norma_fig2": (2, 3),
    "norma_alert_rate": (1, 2),
    "norma_truncation": (0, 1, 2),
    "svmd_fig3": (2,),
    "svmd_fig4": (2,),
    "svmd_fig5": (0, 1),
    "svmd_fig6": (1,),
    "svmd_fig7_left": (0, 1),
    "svmd_fig7_right": (0,),
    "svmd_fig8": (0, 1, 2),
    "drifting_streams": (0,),
}


@pytest.mark.parametrize("name", NAMES)
def test_experiment(name, numbers):
    experiment, got = figure(name), numbers(name)
    claims = experiment.claims(got)
    assert claims
    for claim in claims:
        assert claim.checks, f"{claim.says}: a claim without a check is always true"
        assert "nan" not in claim.ours
    for place in HOLD.get(name, ()):
        assert claims[place].verdict == "reproduced", f"{claims[place].says}: {claims[place].ours} {claims[place].checks}"
    rows = experiment.table(got)
    assert all(row.keys() == rows[0].keys() for row in rows)
    with plots.style("dark"):
        file = io.BytesIO()
        experiment.draw(got, "dark").savefig(file, format="png", dpi=40)
    assert file.tell() > 2000


def test_the_same_seed_gives_the_same_numbers(numbers, tmp_path):
    again, first = numbers_of("svmd_fig6", tmp_path), numbers("svmd_fig6")
    for name, part in first.items():
        np.testing.assert_array_equal(part["final"], again[name]["final"])


def check(name: str, place: int, text: str, numbers: dict) -> bool:
    """The outcome of one check of a claim, found by a piece of its name."""
    checks = figure(name).claims(numbers)[place].checks
    (found,) = [ok for key, ok in checks.items() if text in key]
    return found


def broken(monkeypatch, name, change):
    """Put another function in the place of a recipe, wherever it is looked for; ``change`` makes it from the sound one."""
    sound = recipes.RECIPES[name]
    other = functools.wraps(sound)(change(sound))
    monkeypatch.setattr(onkel, name, other)
    monkeypatch.setitem(recipes.RECIPES, name, other)


def test_ilk_that_takes_explicit_steps_is_found_out(numbers, tmp_path, monkeypatch):
    assert check("ilk_fig1", 3, "ILK less than 1.2-fold", numbers("ilk_fig1"))
    broken(monkeypatch, "ilk", lambda ilk: lambda kernel, loss, *, eta, lam: onkel.norma(kernel, loss, eta=eta, lam=lam))
    assert not check("ilk_fig1", 3, "ILK less than 1.2-fold", numbers_of("ilk_fig1", tmp_path))


def test_norma_that_does_not_forget_is_found_out(numbers, tmp_path, monkeypatch):
    assert check("ilk_fig1", 1, "NORMA below NORMA(0)", numbers("ilk_fig1"))
    broken(monkeypatch, "norma", lambda norma: lambda *args, lam, **rest: norma(*args, lam=0.0, **rest))
    assert not check("ilk_fig1", 1, "NORMA below NORMA(0)", numbers_of("ilk_fig1", tmp_path))


def test_a_buffer_that_keeps_no_more_is_found_out(numbers, tmp_path, monkeypatch):
    assert check("svmd_fig7_right", 0, "papers' parameters", numbers("svmd_fig7_right"))
    broken(monkeypatch, "svmd", lambda svmd: lambda *args, budget, **rest: svmd(*args, budget=8, **rest))
    assert not check("svmd_fig7_right", 0, "papers' parameters", numbers_of("svmd_fig7_right", tmp_path))


def test_svmd_that_does_not_adapt_is_found_out(numbers, tmp_path, monkeypatch):
    assert check("svmd_fig4", 2, "twice the initial step", numbers("svmd_fig4"))
    broken(monkeypatch, "svmd", lambda svmd: lambda *args, mu, **rest: svmd(*args, mu=0.0, **rest))
    assert not check("svmd_fig4", 2, "twice the initial step", numbers_of("svmd_fig4", tmp_path))


def test_the_printed_sign_of_the_margin_step_is_found_out(tmp_path, monkeypatch):
    """Climbing the loss, as the NORMA paper prints it, equals descending with 1 - nu alerts: the rate is far from nu."""
    detector = norma_alert_rate.detector
    monkeypatch.setattr(norma_alert_rate, "detector", lambda step, X, nu: detector(step, X, 1 - nu))
    claims = figure("norma_alert_rate").claims(numbers_of("norma_alert_rate", tmp_path))
    assert not any(claims[1].checks[key] for key in ("nu = 0.02", "nu = 0.1"))


def test_a_flat_tree_buys_nothing(numbers, tmp_path, monkeypatch):
    assert check("svmd_fig8", 0, "taxonomy", numbers("svmd_fig8"))
    structured = onkel.Structured
    monkeypatch.setattr(onkel, "Structured", lambda labels, rho=1.0: structured(onkel.Labels.flat(labels.m), rho))
    assert not check("svmd_fig8", 0, "taxonomy", numbers_of("svmd_fig8", tmp_path))


def test_tuning_takes_the_best_of_the_grid():
    X, y = onkel.streams.drifting_mixtures(400, seed=5)

    def build(eta, forget):
        return contenders.make("ILK", onkel.RBF(150.0), onkel.Hinge(1.0), eta=eta, forget=forget)

    candidates = contenders.grid(eta=(0.01, 1.0), forget=(0.0, 0.01))
    best, count = contenders.tune(build, candidates, [(X, y)])
    counts = [contenders.mistakes(build(**parameters), X, y).sum() for parameters in candidates]
    assert count == min(counts)
    assert best == candidates[int(np.argmin(counts))]

"""The table of `onkel bench reasons`: its own twin of the Shapley values, and how alarms are counted."""

import numpy as np
import pytest

import onkel
from onkel.bench.reasons import rises, subsets, tally
from onkel.reasons import shapley
from onkel.reasons.factors import factors


def test_its_twin():
    rng = np.random.default_rng(0)
    coef, points, x = rng.normal(size=5), rng.normal(size=(5, 6)), rng.normal(size=6)
    kernel = onkel.RBF(1.3)
    np.testing.assert_allclose(subsets(kernel, coef, points, x), shapley.exact(factors(kernel), coef, points, x)[0], atol=1e-12)


def test_a_rise_is_heard_and_a_fall_is_not():
    still = 1.0 + 0.1 * np.sin(np.arange(40.0))
    times = np.arange(50, 50 * 41, 50)
    assert rises(times, still, 6.0) == []
    up, down = still.copy(), still.copy()
    up[30], down[30] = 3.0, 0.0
    assert rises(times, up, 6.0) == [50 * 31]
    assert rises(times, down, 6.0) == []


def test_alarms_are_counted_on_either_side_of_the_turn():
    false, delays = {}, {}
    tally("one", [[100, 1500, 2040, 2500], [2100], []], 2000, false, delays)
    assert false["one"] == [1.0, 0.0, 0.0]  # what comes in the first quarter belongs to learning
    assert delays["one"] == [40, 100, np.inf]


@pytest.mark.slow
def test_the_command(capsys):
    from onkel.cli import main

    assert main(["bench", "reasons", "--quick"]) == 0
    said = capsys.readouterr().out
    assert "exact Shapley values" in said
    assert "verdict" in said


@pytest.mark.slow
def test_the_pictures(tmp_path):
    pytest.importorskip("matplotlib")
    from onkel.bench.reasons_pictures import draw

    assert all(0 < path.stat().st_size < 300_000 for path in draw(tmp_path))

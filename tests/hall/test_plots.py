"""The look of the figures: names that do not overlap, colours that differ, settings that do not leak."""

from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onkel import plots


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0.01, 0.12))
def test_spread_places_keep_their_order_and_distance(places, gap):
    places = np.array(places)
    apart = plots.spread(places, gap, 0.0, 1.0)
    order = np.argsort(places, kind="stable")
    assert np.all(np.diff(apart[order]) >= gap - 1e-9)
    assert apart.min() >= -1e-9
    assert apart.max() <= 1 + 1e-9


@given(st.lists(st.floats(0, 1), min_size=2, max_size=5), st.floats(0.01, 0.3), st.integers(0, 1000))
def test_spread_is_the_nearest(places, gap, seed):
    """No other places far enough apart, here random ones in the same order, lie nearer."""
    places = np.sort(places)
    other = places[0] + np.random.default_rng(seed).normal(0, 0.3) + np.arange(len(places)) * gap
    other += np.cumsum(np.random.default_rng(seed).exponential(0.1, len(places)))
    assert ((plots.spread(places, gap) - places) ** 2).sum() <= ((other - places) ** 2).sum() + 1e-9


def test_places_far_apart_stay():
    np.testing.assert_allclose(plots.spread(np.array([0.9, 0.1, 0.5]), 0.2), [0.9, 0.1, 0.5])


@pytest.mark.parametrize("theme", plots.THEMES)
def test_style_draws_on_its_paper_and_leaves_no_trace(theme, tmp_path):
    before = dict(mpl.rcParams)
    with plots.style(theme):
        figure, (left, right) = plots.panels(2)
        for name, slope in (("ILK", 1.0), ("ILK(0)", 1.01), ("SVMD", 2.0)):
            plots.line(left, [0, 1], [0, slope], name, theme, band=np.array([0.1, 0.1]))
        plots.name_lines(left, ".1f")
        figure.savefig(tmp_path / "figure.svg")
    assert dict(mpl.rcParams) == before
    assert figure.get_facecolor() == mpl.colors.to_rgba(plots.PAPER[theme])
    assert [text.get_text() for text in left.texts] == ["ILK  1.0", "ILK(0)  1.0", "SVMD  2.0"]
    boxes = sorted((text.get_window_extent() for text in left.texts), key=lambda box: box.y0)
    assert all(lower.y1 <= upper.y0 + 1 for lower, upper in pairwise(boxes))
    assert [line.get_linestyle() for line in left.get_lines()] == ["-", "--", "-"]
    assert not right.texts


def luminance(colour):
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in mpl.colors.to_rgb(colour)]
    return np.dot(linear, [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("theme", plots.THEMES)
def test_every_hue_can_be_read_on_its_paper(theme):
    """A contrast of 3 to 1, what the accessibility guidelines ask of large text and graphics."""
    paper = luminance(plots.PAPER[theme])
    for hue in plots.HUES:
        pair = sorted([paper, luminance(plots.colour(hue, theme))])
        assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 3, hue


def test_algorithms_of_one_figure_differ_in_colour_or_stroke():
    from onkel.commands.demo import CHOSEN

    looks = {(plots.colour(name), name in plots.DASHED) for name in CHOSEN}
    assert len(looks) == len(CHOSEN)
    assert set(CHOSEN) <= set(plots.HUE_OF)

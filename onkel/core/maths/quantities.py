"""The quantities that kernels look at, by themselves: what learners of the same points share, whatever their kernels make of it."""

from __future__ import annotations

from onkel.core.maths.kernels import AsItIs, Linear


class SquaredDistance(AsItIs, abstract=True):
    """|x - x'|^2: no kernel, but what many kernels are made of, kept where several of them look at the same points."""

    geometry = "square"
    own = 0.0


class AbsoluteDistance(AsItIs, abstract=True):
    """|x - x'|_1, likewise."""

    geometry = "absolute"
    own = 0.0


QUANTITY = {"square": SquaredDistance(), "absolute": AbsoluteDistance(), "product": Linear()}  # what learners may share

"""Learning on a graphics card, with CuPy: one learner with a large budget, or many learners over one stream.

Kernel values between a block of examples and the stored points come from cuBLAS, in full precision; then one kernel (scan.cu)
learns the block, example after example, for all learners at once.  States come and go as the plain arrays that the CPU works on,
so either side can continue where the other stopped.  Imports the core alone; CuPy is imported when it is asked for, not before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.drive import Trace, settle
from onkel.core.learner import Learner
from onkel.core.maths.value import DEFINED
from onkel.core.points.dense import Rows
from onkel.core.points.read import Store
from onkel.core.state import State
from onkel.gpu.code import cupy
from onkel.gpu.group import Group, block_size


def learn(learner: Learner, state: State, block: Store, y: NDArray[np.float64], weight: Any = None) -> Trace:
    """Learn a block in place, as ``core.drive.advance`` does."""
    return learn_many([learner], [state], block, y, weight)[0]


def learn_many(
    learners: Sequence[Learner], states: Sequence[State], block: Store, y: NDArray[np.float64], weight: Any = None
) -> list[Trace]:
    """Learn a block in place with every learner; those of equal budget, loss and labels run side by side."""
    for learner in learners:
        check(learner, block)
    assert isinstance(block, Rows)
    cp = cupy()
    groups: dict[Any, list[int]] = {}
    for i, (learner, state) in enumerate(zip(learners, states, strict=True)):
        if state.width and (state.width, state.slots.dtype) != (block.width, block.dtype):
            raise ValueError("backend='gpu' runs learners together only on states of one width and number type; take backend='cpu'")
        settle(learner, state, block)
        key = (state.slots.shape[1], type(learner.loss), getattr(learner.loss, "labels", None))
        groups.setdefault(key, []).append(i)
    n, share = len(block), cp.cuda.runtime.memGetInfo()[0] // 4
    y = np.ascontiguousarray(y, np.float64)
    weight = np.ones(n) if weight is None else np.ascontiguousarray(weight, np.float64)
    traces: dict[int, Trace] = {}
    for members in groups.values():
        room, m = states[members[0]].slots.shape[1], states[members[0]].m
        rows = block_size(room, m, n)
        width = max(1, share // ((room + rows) * rows * block.dtype.itemsize))  # learners whose kernel values fit at once
        for first in range(0, len(members), width):
            part = members[first : first + width]
            group = Group(cp, [learners[i] for i in part], [states[i] for i in part], block, rows)
            traces.update(zip(part, group.learn(block, y, weight, share), strict=True))
    return [traces[i] for i in range(len(learners))]


def check(learner: Learner, block: Store) -> None:
    """One clear error for what the card does not do."""
    kernel, step, loss, budget = learner.kernel, learner.step, learner.loss, learner.budget
    formulas, wrong = type(loss).cuda or {}, None
    if not isinstance(block, Rows):
        wrong = "examples other than dense rows of numbers"
    elif not kernel.cuda:
        wrong = f"the kernel {kernel!r}"
    elif not formulas:
        wrong = f"the loss {loss!r}"
    elif not (hasattr(step, "eta") and hasattr(step, "lam")) or step.adaptive:
        wrong = f"the step {type(step).__name__}"
    elif step.implicit and ("prox" not in formulas or (loss.labelled and step.exact)):
        wrong = f"the {'exact ' if step.exact else ''}implicit step for {type(loss).__name__}"
    elif budget.size is None or not budget.rule.on_card:
        wrong = "learning without a budget" if budget.size is None else f"drop={budget.drop!r}"
    if wrong:
        kernels = ", ".join(name for name, cls in DEFINED.items() if getattr(cls, "geometry", None) and cls.cuda)
        raise ValueError(
            f"backend='gpu' does not do {wrong}. It takes dense rows; the kernels {kernels}; explicit steps with any loss of "
            "onkel, implicit ones with all but Softmax and exact=True; a budget with drop='oldest' or 'smallest'. Take "
            "backend='cpu' for the rest"
        )

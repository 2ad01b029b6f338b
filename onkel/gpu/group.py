"""One group of learners on the card: their arrays there, the loop over blocks of the stream, and what comes back."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.checks import failure
from onkel.core.drive import Trace
from onkel.core.learner import Learner
from onkel.core.loop import layout as at
from onkel.core.points.dense import Array, Rows
from onkel.core.state import State
from onkel.gpu import code
from onkel.gpu.code import Cell, Rule

CHUNK = 8  # as in numbers.cu
FREE = np.uint32(0xFFFFFFFF)
THREADS = 512  # of a learner that has a multiprocessor for itself; where two share one, each has half


def block_size(room: int, m: int, n: int) -> int:
    """Examples in a block: about as many as slots, so few that their scores fit in shared memory."""
    rows = 1024 if room >= 1024 else 512
    while rows > 128 and rows * m * 8 > 128 * 1024:
        rows //= 2
    while rows > 64 and rows // 2 >= n:
        rows //= 2
    return rows


class Group:
    """Learners of equal budget, loss and labels, on the card."""

    def __init__(self, cp: Any, learners: list[Learner], states: list[State], block: Rows, rows: int):
        self.cp, self.learners, self.states, self.rows = cp, learners, states, rows
        self.count, self.m, self.room, self.d = len(learners), states[0].m, states[0].slots.shape[1], block.width
        self.dtype, self.buffers = block.dtype, {}  # type: tuple[Any, dict[str, Any]]
        self.starts = [state.t for state in states]
        self.kernels = list(dict.fromkeys(learner.kernel for learner in learners))
        loss = type(learners[0].loss)
        alone = self.count <= cp.cuda.Device().attributes["MultiProcessorCount"]
        self.threads = min(max(128, rows), THREADS if alone else THREADS // 2)
        self.window = max(1, min(32, 1024 // self.m))  # examples that one warp learns before the others hear of it
        self._share_memory()
        labels = getattr(learners[0].loss, "labels", None)
        more = {
            "INSIDE": self.inside,
            "FLAT": int(labels is not None and np.array_equal(labels.cost, 1.0 - np.eye(self.m))),
            "RELATED": int(labels is not None and not labels.plain),
            "ALL_IMPLICIT": _alike(learner.step.implicit for learner in learners),
            "ALL_SMALLEST": _alike(not learner.budget.rule.in_turn for learner in learners),
            "ALL_OFFSET": _alike(learner.offset for learner in learners),
            "ALL_MOVING": _alike(learner.nu is not None for learner in learners),
        }
        kinds = tuple(dict.fromkeys(type(kernel) for kernel in self.kernels))
        module = code.module(self.dtype, loss, kinds, self.threads, -(-self.m // 32), tuple(more.items()))
        self.finish, self.scan, self.settle = (module.get_function(name) for name in ("finish", "scan", "settle"))
        self.scan.max_dynamic_shared_size_bytes = self.shared

        self.cost = cp.asarray(np.zeros(1) if labels is None else np.ascontiguousarray(labels.cost))
        self.kappa = cp.asarray(np.zeros(1) if labels is None else np.ascontiguousarray(labels.kernel))
        self.shapes = cp.asarray(np.array([code.numbers_of(kernel, kinds) for kernel in self.kernels]))
        self.which = cp.asarray(np.array([self.kernels.index(learner.kernel) for learner in learners], np.int32))
        self.each = cp.asarray(np.arange(len(self.kernels), dtype=np.int32))

        nums = np.zeros((self.count, len(Cell) + self.m))
        ranks = np.full((self.count, self.room), FREE, np.uint32)
        coefs = np.empty((self.count, self.m, self.room), self.dtype)
        mags, kxxs = np.empty((2, self.count, self.room), self.dtype)
        self.points = cp.zeros((self.count, self.room, self.d), self.dtype)
        self.norms = cp.zeros((self.count, self.room), self.dtype)
        for i, state in enumerate(states):
            num, slots, order = state.num, state.slots, state.order
            nums[i, : len(Cell)] = num[at.N], num[at.USED], num[at.HEAD], num[at.SCALE], num[at.THETA], 0.0
            nums[i, len(Cell) :] = num[at.NUMBERS : at.NUMBERS + self.m]
            ranks[i, order] = np.arange(len(order))
            coefs[i], mags[i], kxxs[i] = slots[: self.m], slots[self.m + at.MAG], slots[self.m + at.KXX]
            if len(order):
                stored = state.store if state.store is not None else Rows(np.ascontiguousarray(slots[self.m + at.AUX :].T))
                self.points[i] = cp.asarray(stored.data)  # type: ignore[union-attr]
                self.norms[i] = cp.asarray(stored.norms)  # type: ignore[union-attr]
        self.nums, self.ranks, self.coefs = cp.asarray(nums), cp.asarray(ranks), cp.asarray(coefs)
        self.mags, self.kxxs = cp.asarray(mags), cp.asarray(kxxs)
        self.sources = cp.full((self.count, self.room), -1, np.int32)

    def _share_memory(self) -> None:
        """What of the loop's arrays fits in shared memory: the scores first, then what is kept for each slot."""
        limit = self.cp.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"]
        real, rows, room, m = self.dtype.itemsize, self.rows, self.room, self.m
        deep = -(-self.window // CHUNK) * CHUNK
        digit = 8 if code.is_softmax(type(self.learners[0].loss)) else real
        always = (4 * m * deep * real, 16 * deep, 8 * len(Rule), (56 + 2 * digit) * rows, 96 + m, *3 * (32 * deep * real,),
                  64 * real, 2 * m * real, 32 * -(-rows // 32) * real, 4 * rows, 8 * deep, 8 * m)  # fmt: skip
        slots = (room * real, 4 * room, 4 << (room - 1).bit_length())
        self.shared, self.inside = _together(always), 0
        for bit, parts in ((1, (8 * m * (rows + 1),)), (2, slots)):
            if self.shared + _together(parts) <= limit:
                self.shared, self.inside = self.shared + _together(parts), self.inside | bit

    def learn(self, block: Rows, y: Array, weight: Array, share: int) -> list[Trace]:
        n, cp = len(block), self.cp
        steps, plans = self._steps(n)
        rules = cp.asarray(self._rules(steps))
        scores = [np.empty((n, self.m)) for _ in self.learners]
        losses, wrongs, sizes = np.empty((self.count, n)), np.empty((self.count, n), bool), np.empty((self.count, n), np.int64)
        thetas = np.repeat([[state.num[at.THETA]] for state in self.states], n, axis=1)
        moving = any(learner.nu is not None for learner in self.learners)

        per_row = self.count * (8 * self.m + 21) + self.d * self.dtype.itemsize
        chunk = max(1, share // per_row // self.rows) * self.rows  # examples whose traces fit at once
        for first in range(0, n, chunk):
            here = slice(first, min(n, first + chunk))
            size = here.stop - first
            inputs = tuple(cp.asarray(np.ascontiguousarray(a)) for a in (y[here], weight[here], plans[:, here]))
            X, norms = cp.asarray(block.data[here]), cp.asarray(block.norms[here])
            traces = (
                cp.empty((self.count, size, self.m)),
                cp.empty((self.count, size)),
                cp.empty((self.count, size), np.bool_),
                cp.asarray(thetas[:, here]) if moving else cp.empty(1),
                cp.empty((self.count, size), np.int32),
            )
            for begin in range(0, size, self.rows):
                part = slice(begin, begin + self.rows)
                rank = np.uint32(self.room + first + begin)
                self._block(X[part], norms[part], begin, size, rank, (*inputs, rules), traces)
            for i in range(self.count):  # the card is busy: touch the memory that its results will need
                scores[i][here] = 0.0
            for i in range(self.count):
                traces[0][i].get(out=scores[i][here])
            losses[:, here], wrongs[:, here], sizes[:, here] = traces[1].get(), traces[2].get(), traces[4].get()
            if moving:
                thetas[:, here] = traces[3].get()
            self._raise_failures(first)
        self._write_back(n)
        return [
            Trace(
                scores[i][:, 0].copy() if state.scalar else scores[i],
                losses[i],
                wrongs[i],
                np.full(n, self.learners[i].step.eta) if steps[i] < 0 else plans[steps[i]].copy(),  # type: ignore[union-attr]
                thetas[i],
                sizes[i],
            )
            for i, state in enumerate(self.states)
        ]

    def _steps(self, n: int) -> tuple[list[int], NDArray[np.float64]]:
        """For each learner which row of the scheduled step sizes is its own, -1 for a constant one; and those rows."""
        plans: dict[Any, Array] = {}
        steps = []
        for learner, start in zip(self.learners, self.starts, strict=True):
            eta = learner.step.eta
            key = (learner.step, start)
            if not callable(eta):
                steps.append(-1)
                continue
            if key not in plans:
                plans[key] = learner.step.etas(start, n)
            steps.append(list(plans).index(key))
        return steps, np.array(list(plans.values())) if plans else np.zeros((1, n))

    def _rules(self, steps: list[int]) -> NDArray[np.float64]:
        rules = np.zeros((self.count, len(Rule)))
        for rule, learner, row in zip(rules, self.learners, steps, strict=True):
            step = learner.step
            rule[Rule.IMPLICIT], rule[Rule.LAM], rule[Rule.C] = step.implicit, step.lam, step.C
            rule[Rule.NU], rule[Rule.OFFSET] = math.nan if learner.nu is None else learner.nu, learner.offset
            rule[Rule.SMALLEST], rule[Rule.BUDGET] = not learner.budget.rule.in_turn, learner.budget.size
            rule[Rule.ETA], rule[Rule.ETA_ROW] = math.nan if callable(step.eta) else step.eta, row
            rule[Rule.KERNEL] = self.kernels.index(learner.kernel)
        return rules

    def _block(
        self, X: Any, norms: Any, begin: int, size: int, rank: Any, inputs: tuple[Any, ...], traces: tuple[Any, ...]
    ) -> None:
        """Kernel values of one block, the scores that it has at its start, the loop over it, and the points that were stored."""
        rows, d, cp = len(X), np.int32(self.d), self.cp
        flat = self.points.reshape(-1, self.d)
        K = self._buffer("K", self.count * self.room, rows)
        cp.dot(flat, X.T, out=K)
        self._kernel_values(K, K, X, norms, flat, self.norms, self.which, self.room)
        products = self._buffer("products", rows, rows)
        cp.dot(X, X.T, out=products)
        inner = self._buffer("inner", len(self.kernels) * rows, rows)
        self._kernel_values(inner, products, X, norms, X, norms, self.each, rows)
        starts = cp.matmul(self.coefs, K.reshape(self.count, self.room, rows))
        scratch = self.nums if self.inside & 1 else self._spare("scores", self.m * (self.rows + 1), np.float64)
        orders = self.sources if self.inside & 2 else self._spare("orders", 2 * self.room, np.int32)
        y, weight, plans, rules = inputs
        i, w = np.int32, np.int64
        self.scan(
            (self.count,), (self.threads,),
            (i(rows), i(self.room), i(self.m), i(self.window), w(begin), w(size), K, inner, starts, norms, y, weight, plans, rules,
             self.shapes, self.cost, self.kappa, self.nums, self.coefs, self.mags, self.ranks,
             self.sources, self.kxxs, scratch, orders, rank, *traces),
            shared_mem=self.shared,
        )  # fmt: skip
        self.settle((self.room, self.count), (128,), (self.sources, X, norms, self.points, self.norms, i(self.room), d))

    def _kernel_values(self, out: Any, products: Any, X: Any, xn: Any, Z: Any, zn: Any, which: Any, points: int) -> None:
        """From products to kernel values; Z holds the points of each learner, or is X itself, for each kernel."""
        rows, threads, same = len(X), 256, Z is X
        i = np.int32
        self.finish(
            ((rows * points + threads - 1) // threads, len(which)), (threads,),
            (out, products, np.int64(0 if same else rows * points), X, xn, Z, zn, i(0 if same else points), self.shapes, which,
             i(rows), i(points), i(self.d), i(same)),
        )  # fmt: skip

    def _buffer(self, name: str, rows: int, columns: int) -> Any:
        """A matrix in memory that serves one block after the other."""
        flat = self.buffers.get(name)
        if flat is None or flat.size < rows * columns:
            flat = self.buffers[name] = self.cp.empty(rows * columns, self.dtype)
        return flat[: rows * columns].reshape(rows, columns)

    def _spare(self, name: str, size: int, dtype: Any) -> Any:
        """Where each learner puts what does not fit in shared memory."""
        if name not in self.buffers:
            self.buffers[name] = self.cp.empty(self.count * size, dtype)
        return self.buffers[name]

    def _raise_failures(self, first: int) -> None:
        failed = self.nums[:, Cell.FAILED].get()
        if failed.any():
            i = int(np.flatnonzero(failed)[0])
            raise failure(at.NOT_FINITE, first + int(failed[i]) - 1)

    def _write_back(self, n: int) -> None:
        """The states as the CPU would have left them."""
        nums, ranks, coefs = self.nums.get(), self.ranks.get(), self.coefs.get()
        mags, kxxs = self.mags.get(), self.kxxs.get()
        for i, (state, start) in enumerate(zip(self.states, self.starts, strict=True)):
            num, slots, rank = state.num, state.slots, ranks[i].astype(np.int64)
            num[at.T] = start + n
            num[at.N], num[at.USED], num[at.HEAD], num[at.SCALE], num[at.THETA] = nums[i, : Cell.FAILED]
            num[at.NUMBERS : at.NUMBERS + self.m] = nums[i, len(Cell) :]
            before = np.append(state.born[state.order], np.zeros(self.room + 1, np.int64))
            state.born[:] = np.where(rank < self.room, before[np.minimum(rank, self.room)], start + rank - self.room + 1)
            state.born[ranks[i] == FREE] = -1
            slots[: self.m], slots[self.m + at.MAG], slots[self.m + at.KXX] = coefs[i], mags[i], kxxs[i]
            if state.store is None:
                slots[self.m + at.AUX :] = self.points[i].get().T
            else:
                self.points[i].get(out=state.store.data)  # type: ignore[union-attr]
                self.norms[i].get(out=state.store.norms)  # type: ignore[union-attr]


def _alike(values: Iterable[bool]) -> int:
    """1 or 0 if all are true or none is, else -1."""
    found = set(map(bool, values))
    return int(found.pop()) if len(found) == 1 else -1


def _together(parts: tuple[int, ...]) -> int:
    """Bytes of arrays that each begin at a multiple of 16."""
    return sum(-(-part // 16) * 16 for part in parts)

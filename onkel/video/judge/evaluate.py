"""How good are the masks? Ours and the usual ones on the same frames, in one table and one figure."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from onkel.video.cpu.paper import median5
from onkel.video.judge.sequences import BACKGROUND, EMPTY, OBJECT, SHADOW, Sequence
from onkel.video.subtractor import BackgroundSubtractor

BINS, HIGHEST = 2048, 1.5  # of the score histograms behind ROC and PR, over f from 0 to here
START = 10  # frames in which MOG2 and KNN, which begin with all of the picture in the foreground, settle


class RunningAverage:
    """The oldest method: a running mean of the frames; foreground where any channel is further than `threshold` away."""

    def __init__(self, rate: float = 0.02, threshold: float = 35.0):
        self.rate, self.threshold = rate, threshold
        self.mean: np.ndarray | None = None

    def apply(self, image: np.ndarray) -> np.ndarray:
        frame = image.astype(np.float32)
        if self.mean is None:
            self.mean = frame
        difference = np.abs(frame - self.mean).reshape(*frame.shape[:2], -1).max(2)
        self.mean = self.mean + self.rate * (frame - self.mean)
        self.scores = 1.0 - np.minimum(difference, 255.0) / 255.0
        return np.where(difference > self.threshold, 255, 0).astype(np.uint8)


def methods(**options: Any) -> dict[str, Callable[[], Any]]:
    """Everyone in the table without a filter: our default rule with `options`, OpenCV's at its defaults.

    SILK and truncated NORMA share one setting, picked from `pair_grid` (docs/video.md tells how the rest of it looks: which of
    the two is ahead depends on the setting).
    """
    import cv2

    return {
        "onkel": lambda: BackgroundSubtractor(median=False, threads=1, **options),
        "silk": lambda: BackgroundSubtractor("silk", lam=0.06, threshold=0.35, threads=1),
        "norma": lambda: BackgroundSubtractor("norma", lam=0.06, threshold=0.35, threads=1),
        "MOG2": lambda: cv2.createBackgroundSubtractorMOG2(detectShadows=False),
        "KNN": lambda: cv2.createBackgroundSubtractorKNN(detectShadows=False),
        "average": RunningAverage,
    }


@dataclass
class Result:
    """Counts of one method on one sequence. counts: hits, false alarms, misses, rightly quiet."""

    sequence: str
    method: str
    plain: np.ndarray = field(default_factory=lambda: np.zeros(4))
    filtered: np.ndarray = field(default_factory=lambda: np.zeros(4))
    late: np.ndarray = field(default_factory=lambda: np.zeros(4))  # filtered, without the first START frames
    objects: np.ndarray = field(default_factory=lambda: np.zeros(BINS))  # histogram of f on objects
    ground: np.ndarray = field(default_factory=lambda: np.zeros(BINS))  # and on background
    seconds: float = 0.0
    frames: int = 0
    numbers: list[int] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)  # foreground share of each filtered mask
    samples: list[np.ndarray] = field(default_factory=list)

    @property
    def fps(self) -> float:
        return self.frames / self.seconds

    def roc(self) -> tuple[np.ndarray, np.ndarray]:
        """(false-positive rate, recall) as the threshold on f rises; empty where the method gives no scores."""
        if not self.objects.any():
            return np.zeros(0), np.zeros(0)
        return (np.r_[0.0, self.ground.cumsum()] / self.ground.sum(), np.r_[0.0, self.objects.cumsum()] / self.objects.sum())

    def precision_recall(self) -> tuple[np.ndarray, np.ndarray]:
        hits, false = self.objects.cumsum(), self.ground.cumsum()
        keep = hits + false > 0
        return hits[keep] / max(1.0, hits[-1]), hits[keep] / (hits + false)[keep]

    @property
    def auc(self) -> float:
        false, recall = self.roc()
        return float(np.trapezoid(recall, false)) if len(false) else float("nan")

    @property
    def average_precision(self) -> float:
        if not self.objects.any():
            return float("nan")
        recall, precision = self.precision_recall()
        return float(np.sum(np.diff(recall, prepend=0.0) * precision))

    def light(self) -> list[tuple[float, int]]:
        """In each stretch known to be empty: the worst share of alarms, and the frames after the light's last step until
        alarms stay under 1 %."""
        numbers, shares = np.array(self.numbers), np.array(self.shares)
        rows = []
        for first, step, last in EMPTY.get(self.sequence, ()):
            late = shares[(numbers >= step) & (numbers <= last)]
            bad = np.flatnonzero(late >= 0.01)
            rows.append((float(shares[(numbers >= first) & (numbers <= last)].max()), int(bad[-1]) + 1 if len(bad) else 0))
        return rows


def rates(counts: np.ndarray) -> tuple[float, float, float, float]:
    """(precision, recall, F, false-positive rate)."""
    hits, false, missed, quiet = counts
    return (
        hits / max(1.0, hits + false),
        hits / max(1.0, hits + missed),
        2 * hits / max(1.0, 2 * hits + false + missed),
        false / max(1.0, false + quiet),
    )


def run(sequence: Sequence, contenders: dict[str, Callable[[], Any]], sample_every: int = 0) -> list[Result]:
    """Every contender over the sequence, frame by frame, one after the other on each frame; CPU time of `apply` only."""
    results = {name: Result(sequence.name, name) for name in contenders}
    running = {name: make() for name, make in contenders.items()}
    for index, (n, frame, labels) in enumerate(sequence.frames()):
        if index == 0:
            filtered, column = np.zeros(frame.shape[:2], np.uint8), np.zeros(frame.shape[1] + 4, np.uint8)
            for make in contenders.values():  # compile outside the clock: a still, a changed and a darker frame
                warm = make()
                for image in (frame, 255 - frame, frame // 2):
                    warm.apply(image)
        counted = None
        if labels is not None:
            counted = (labels == BACKGROUND) | (labels == SHADOW) | (labels == OBJECT)
            truth = labels[counted] == OBJECT
        for name, subtractor in running.items():
            result = results[name]
            begin = time.process_time()
            mask = subtractor.apply(frame)
            result.seconds += time.process_time() - begin
            result.frames += 1
            median5(mask, filtered, column)
            result.numbers.append(n)
            result.shares.append(float(np.count_nonzero(filtered)) / filtered.size)
            if sample_every and index % sample_every == 0:
                result.samples.append(filtered.copy())
            if counted is None or not counted.any():
                continue
            for total, found in ((result.plain, mask), (result.filtered, filtered)):
                hit = found[counted] > 0
                counts = np.array([np.sum(hit & truth), np.sum(hit & ~truth), np.sum(~hit & truth), np.sum(~hit & ~truth)])
                total += counts
            if index >= START:
                result.late += counts
            if hasattr(subtractor, "scores"):
                level = np.clip(subtractor.scores[counted] * (BINS / HIGHEST), 0, BINS - 1).astype(np.int64)
                result.objects += np.bincount(level[truth], minlength=BINS)
                result.ground += np.bincount(level[~truth], minlength=BINS)
    return list(results.values())


def table(results: Iterable[Result]) -> str:
    """The results as text, one line per method and sequence."""
    rate_heads = f"{'P':>6}{'R':>6}{'F':>6}{'FPR':>7}"
    more = f"{'AUC':>7}{'AP':>6}{'fps':>7}   light: peak / frames to recover"
    head = f"{'sequence':24}{'method':10}|{rate_heads} |{rate_heads}{'F late':>8} |{more}"
    lines = [f"{'':34}| without filter           | with 5x5 median; late: from frame {START + 1} on", head, "-" * len(head)]
    for r in results:

        def cells(counts: np.ndarray) -> str:
            if not counts.any():
                return f"{'-':>6}{'-':>6}{'-':>6}{'-':>7}"
            p, c, f, rate = rates(counts)
            return f"{p:6.3f}{c:6.3f}{f:6.3f}{rate:7.4f}"

        light = "   ".join(f"{peak:.1%} / {frames}" for peak, frames in r.light())
        late = f"{rates(r.late)[2]:8.3f}" if r.late.any() else f"{'-':>8}"
        curves = f"{r.auc:7.4f}{r.average_precision:6.3f}".replace("   nan", "     -")
        masks = f"{cells(r.plain)} |{cells(r.filtered)}{late}"
        lines.append(f"{r.sequence[:23]:24}{r.method:10}|{masks} |{curves}{r.fps:7.0f}   {light}")
    return "\n".join(lines)


def figure(results: list[Result], path: str | Path) -> None:
    """ROC and precision-recall of every sequence with labels, alarms over time of the others."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(r.sequence for r in results))
    canvas = Figure(figsize=(11, 3.4 * len(names)), layout="constrained")
    FigureCanvasAgg(canvas)
    for row, name in enumerate(names):
        left, right = canvas.add_subplot(len(names), 2, 2 * row + 1), canvas.add_subplot(len(names), 2, 2 * row + 2)
        left.set_title(name)
        for i, r in enumerate(q for q in results if q.sequence == name):
            colour, line = f"C{i}", "--" if r.method == "norma" else "-"  # which often lies on silk
            if not r.filtered.any():
                left.plot(r.shares, line, color=colour, label=r.method)
                left.set(xlabel="frame", ylabel="share of alarms")
                right.semilogy(np.maximum(r.shares, 1e-4), line, color=colour)
                right.set(xlabel="frame", ylabel="share of alarms, at least 0.0001")
                continue
            false, recall = r.roc()
            if len(false):
                left.plot(false, recall, line, color=colour, label=f"{r.method} (AUC {r.auc:.3f})")
                right.plot(*r.precision_recall(), line, color=colour)
            p, c, f, rate = rates(r.filtered)
            left.plot(rate, c, "o", color=colour, label=None if len(false) else r.method)
            right.plot(c, p, "o", color=colour, label=f"{r.method}: F {f:.3f}")
            left.set(xlim=(0, 0.3), ylim=(0, 1), xlabel="false-positive rate", ylabel="recall")
            left.set_title(f"{name} (curves: f of each pixel; dots: masks with 5x5 median)", fontsize=9)
            right.set(xlim=(0, 1), ylim=(0, 1), xlabel="recall", ylabel="precision")
            _below(right)
        _below(left)
    canvas.savefig(path, dpi=120)


def _below(axes: Any) -> None:
    """The legend under the axes, where it hides no curve."""
    axes.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)


HIT, FALSE, MISSED = (255, 255, 255), (60, 60, 230), (230, 140, 40)  # BGR


def coloured(found: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
    """A mask in colours: hits white, false alarms red, missed pixels blue; dark grey where nobody judges."""
    picture = np.zeros((*found.shape, 3), np.uint8)
    if labels is None:
        picture[found > 0] = HIT
        return picture
    truth, ground, found = labels == OBJECT, (labels == BACKGROUND) | (labels == SHADOW), found > 0
    picture[~truth & ~ground] = 40
    picture[found & truth], picture[found & ground], picture[~found & truth] = HIT, FALSE, MISSED
    return picture


def contact_sheet(sequence: Sequence, results: list[Result], sample_every: int, path: str | Path) -> None:
    """Frames, labels and everyone's masks side by side, as one PNG: hits white, false alarms red, missed pixels blue."""
    import cv2

    rows = []
    kept = [(frame, labels) for i, (_, frame, labels) in enumerate(sequence.frames()) if i % sample_every == 0]
    for i, (frame, labels) in enumerate(kept):
        known = cv2.cvtColor(np.zeros(frame.shape[:2], np.uint8) if labels is None else labels, cv2.COLOR_GRAY2BGR)
        row = np.hstack([frame, known, *(coloured(r.samples[i], labels) for r in results)])
        size = (200 * (2 + len(results)), round(200 * frame.shape[0] / frame.shape[1]))
        rows.append(cv2.resize(row, size, interpolation=cv2.INTER_AREA))
        rows[-1][:, ::200] = 128
        rows[-1][0] = 128
    head = np.zeros((24, rows[0].shape[1], 3), np.uint8)
    for i, text in enumerate(["frame", "labels", *(r.method for r in results)]):
        cv2.putText(head, text, (200 * i + 6, 17), cv2.FONT_HERSHEY_SIMPLEX, 0.5, (255, 255, 255), 1)
    cv2.imwrite(str(path), np.vstack([head, *rows]))


def ablations() -> dict[str, dict[str, Any]]:
    """Our default with each part taken out, one at a time."""
    return {
        "as it is": {},
        "no folding": {"fold": None, "budget": 20},
        "no votes": {"votes": False},
        "no texture": {"texture": False},
        "no shadows": {"shadows": False},
        "the rule before": {"rule": "fold1"},
        "no light": {"light": False},
        "no unrest": {"unrest": 0.0},
        "fixed threshold .6": {"nu": None},
        "fixed threshold .3": {"threshold": 0.3},
        "colours stay": {"move": 0.0},
        "budget 4": {"budget": 4},
        "budget 20": {"budget": 20},
    }


def pair_grid() -> dict[str, dict[str, Any]]:
    """Settings that SILK and truncated NORMA are both run with."""
    return {
        f"sigma {sigma:g} C {C:g} lam {lam:g}": {"sigma": sigma, "C": C, "lam": lam}
        for sigma, C in ((20.0, 0.12), (12.0, 0.12), (20.0, 1.0))
        for lam in (0.001, 0.01, 0.03, 0.06)
    }


def pair_table(results: Iterable[Result]) -> str:
    """AUC of SILK and of NORMA at each setting of the grid."""
    found = {r.method: r for r in results}
    sequence = next(iter(found.values())).sequence
    return "\n".join(
        f"{sequence[:23]:24}{name:28}silk {found['silk ' + name].auc:.4f}  norma {found['norma ' + name].auc:.4f}"
        for name in pair_grid()
    )


def ablation_table(results: Iterable[Result]) -> str:
    """One line per variant: F with the median, AUC, fps and the light stretches."""
    lines = []
    for r in results:
        light = "   ".join(f"{peak:.1%} / {frames}" for peak, frames in r.light())
        quality = f"F {rates(r.filtered)[2]:.3f}  AUC {r.auc:.4f}" if r.filtered.any() else f"{'':19}"
        lines.append(f"{r.sequence[:23]:24}{r.method:28}{quality}  fps {r.fps:5.0f}   {light}")
    return "\n".join(lines)

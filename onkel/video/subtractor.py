"""BackgroundSubtractor: moving objects from one tiny kernel learner per pixel, in the shape OpenCV users know."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from onkel.core.gate import is_array, is_count, must

from .settings import real, settle_settings, whole

LARGEST = 1e6  # times rho + C: no coefficient of a file is larger


class BackgroundSubtractor:
    """Finds what does not belong to the background: one novelty detector per pixel, all with the same small budget.

    Every pixel keeps f = sum_i a_i k(p_i, .) over at most `budget` of its past colours p_i, k Gaussian, and is foreground
    when f(colour now) falls under a threshold. Then it learns: f <- f/(1 + lam) + a k(colour now, .) with the implicit step
    a = clip(rho - f/(1 + lam), 0, C/(1 + lam)).

    rule        "fold" (the default: the rule above with similar colours folded together, light and soft shadows explained,
                texture, ghosts told from objects, and a threshold that sets itself), "silk" (the paper's rule exactly), "norma"
                (truncated NORMA, for comparison), "fold1" (the default of older versions, which their files go on with)
    budget      colours per pixel (default 8 for "fold", where one colour stands for many frames, else 20)
    sigma       width of the kernel, in grey levels of 0 .. 255; under "fold" a grey frame counts as if it were given three times
    C, lam, rho the largest coefficient of one frame, forgetting per frame, margin
    threshold   foreground when f < threshold; None under "fold" sets it from the video itself
    median      5x5 median on the mask; default on for "fold", off for the paper's rules
    backend     "cpu" or "gpu" (CuPy); threads: how many CPU threads (default all); cameras: how many videos in one object,
                frames then come as (cameras, height, width[, 3])

    Only for "fold" and "fold1" (each is measured by `onkel video eval --ablate`):
    fold        fold into a stored colour with k > fold (None: never); move: how far that colour then moves
    slow        largest coefficient of one frame while a pixel is foreground (None: C, no difference); under "fold"
                an object learns a tenth of it, a ghost C
    light       take alarms back that a smooth change of light explains, and learn those pixels at once
    unrest      how strongly a pixel's own false alarms raise its bar (0: not at all)
    texture, shadows, votes   only "fold": find what has changed its texture; take soft shadows out of the mask; tell ghosts from
                objects by what is beyond their edges. detectShadows: mark shadows 127, as OpenCV does
    nu          share of lonely alarms in a frame that the threshold aims at (None: threshold fixed)

    >>> import numpy as np
    >>> camera = BackgroundSubtractor(threads=1)
    >>> empty = np.full((48, 64, 3), 90, np.uint8)
    >>> for _ in range(5):
    ...     mask = camera.apply(empty)
    >>> int(mask.max())
    0
    >>> ball = empty.copy(); ball[10:20, 30:40] = 200
    >>> mask = camera.apply(ball, learningRate=0)       # 0 freezes the model
    >>> int((mask > 0).sum()) > 80, mask.dtype
    (True, dtype('uint8'))
    """

    def __init__(
        self,
        rule: str = "fold",
        budget: int | None = None,
        sigma: float = 20.0,
        C: float | None = None,
        lam: float | None = None,
        threshold: float | None = None,
        *,
        rho: float = 1.0,
        median: bool | None = None,
        fold: float | None = 0.7,
        move: float = 0.2,
        slow: float | None = 0.007,
        light: bool = True,
        unrest: float = 40.0,
        nu: float | None = 0.002,
        texture: bool = True,
        shadows: bool = True,
        votes: bool = True,
        detectShadows: bool = False,
        backend: str = "cpu",
        cameras: int = 1,
        threads: int | None = None,
    ):
        parts = texture, shadows, votes, detectShadows
        self.settings = settle_settings(
            rule, budget, sigma, C, lam, threshold, rho, median, fold, move, slow, light, unrest, nu, *parts
        )
        if backend not in ("cpu", "gpu"):
            raise ValueError(f"backend={backend!r}: choose 'cpu' or 'gpu'")
        if backend == "gpu" and rule == "fold":
            raise ValueError(
                "backend='gpu' does not know rule='fold' yet: give rule='fold1', the default before it, or silk or norma"
            )
        self.backend, self.cameras = backend, whole("cameras", cameras, math.inf, "how many videos in one object")
        self.threads = os.cpu_count() or 1 if threads is None else whole("threads", threads, 1024, "CPU threads")
        self._models: list[Any] = []
        self._shape: tuple[int, ...] | None = None
        self._dtype: np.dtype | None = None
        self._scored = False  # whether a frame has come since the start, or since a file was loaded

    def apply(self, image: np.ndarray, fgmask: np.ndarray | None = None, learningRate: float = -1) -> np.ndarray:
        """The foreground mask (uint8, 0 or 255) of the next frame, and learn from it.

        learningRate < 0: the forgetting set by lam. 0: the model is frozen, nothing in it changes. Between 0 and 1: forget
        this share. 1: start anew from this frame. A given `fgmask` is filled and returned, and no array is made.
        """
        image = self._checked_frame(image)
        real("learningRate", learningRate, lambda v: v <= 1, "give a number up to 1; negative means automatic, 0 freezes")
        out = None if fgmask is None else self._checked_mask(fgmask, image)
        if self._shape is None or learningRate == 1:
            self._start(image)
        elif image.shape != self._shape or image.dtype != self._dtype:
            raise ValueError(
                f"the frame is {image.shape} {image.dtype}, the model was made for {self._shape} {self._dtype}: "
                "resize or convert the frame, or use a new BackgroundSubtractor"
            )
        frames = self._frames(image)
        direct = out is not None and out.flags.c_contiguous and not np.may_share_memory(out, image)
        target = (out if direct else self._mask).reshape(self.cameras, *self._mask.shape[-2:])
        forgetting = None if learningRate < 0 or learningRate == 1 else float(learningRate)
        if self.backend == "gpu":
            self._models[0].apply(frames, target, learningRate != 0, forgetting)
        else:
            for model, frame, mask in zip(self._models, frames, target, strict=True):
                model.apply(frame, mask, learningRate != 0, forgetting)
        self._scored = True
        if out is None:
            return self._mask.copy()
        if not direct:
            out[...] = self._mask
        return out

    def clear(self) -> None:
        """Forget everything; the next frame is the first."""
        self._models, self._shape, self._dtype, self._scored = [], None, None, False

    def stream(self, frames: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        """Masks of many frames. On the GPU upload, computing and download overlap; a mask is then valid until two more came."""
        if self.backend == "cpu":
            yield from map(self.apply, frames)
            return
        frames = iter(frames)
        first = next(frames, None)
        if first is not None:
            yield self.apply(first)
            yield from self._models[0].stream(frames)

    def getBackgroundImage(self) -> np.ndarray:
        """Each pixel's colour with the largest coefficient, in the shape and type of the frames."""
        if not all(model.frames for model in self._models) or not self._models:
            raise ValueError("no frame has been learned yet: the background image comes with the first that is")
        if self.backend == "gpu":
            return self._models[0].background().reshape(self._shape)
        return np.stack([m.background() for m in self._models]).reshape(self._shape)

    @property
    def scores(self) -> np.ndarray:
        """f of every pixel in the last frame, before learning from it (a copy); low means novel."""
        if not self._scored:
            raise ValueError("no frame has been applied yet, or none since the model was loaded: scores come with the next apply")
        if self.backend == "gpu":
            return self._models[0].scores().reshape(self._mask.shape)
        return np.stack([m.grid.image(m.grid.score_blocks) for m in self._models]).reshape(self._mask.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the state: everything that a saved file would hold."""
        return sum(a.nbytes for m in self._models for a in m.arrays().values())

    def __repr__(self) -> str:
        s = self.settings
        return (
            f"BackgroundSubtractor(rule={s.rule!r}, budget={s.budget}, sigma={s.sigma:g}, C={s.C:g}, lam={s.lam:g}, "
            f"threshold={s.threshold}, backend={self.backend!r}, cameras={self.cameras})"
        )

    # --- frames in

    def _checked_frame(self, image: np.ndarray) -> np.ndarray:
        """A frame that this object could take, whatever came before."""
        if not isinstance(image, np.ndarray):
            hint = "the source had no frame" if image is None else "give a NumPy array; a cv2.UMat has get() for that"
            raise ValueError(f"the frame is a {type(image).__name__}: {hint}")
        shape = image.shape if self.cameras == 1 else image.shape[1:]
        if self.cameras > 1 and (image.ndim < 3 or image.shape[0] != self.cameras):
            raise ValueError(f"the frame is {image.shape}: with cameras={self.cameras} give ({self.cameras}, height, width[, 3])")
        if len(shape) not in (2, 3) or (len(shape) == 3 and shape[2] not in (1, 3)) or min(shape[:2], default=0) < 1:
            raise ValueError(f"the frame is {image.shape}: give (height, width) or (height, width, 3)")
        if image.dtype not in (np.uint8, np.float32):
            raise ValueError(f"the frame's type is {image.dtype}: give uint8 or float32")
        if image.dtype == np.float32:
            with np.errstate(over="ignore", invalid="ignore"):
                unsure = not np.isfinite(image.sum())
            if unsure and not np.isfinite(image).all():
                raise ValueError("the frame holds NaN or infinite values: replace them before apply")
        return image

    def _checked_mask(self, fgmask: np.ndarray, image: np.ndarray) -> np.ndarray:
        shape = image.shape[: 2 if self.cameras == 1 else 3]
        if not isinstance(fgmask, np.ndarray) or fgmask.shape != shape or fgmask.dtype != np.uint8:
            given = f"{fgmask.shape} {fgmask.dtype}" if isinstance(fgmask, np.ndarray) else f"a {type(fgmask).__name__}"
            raise ValueError(f"fgmask is {given}: it must be an array of {shape} uint8, or None")
        if not fgmask.flags.writeable:
            raise ValueError("fgmask is read-only: give an array that can be written, or None")
        return fgmask

    def _start(self, image: np.ndarray) -> None:
        shape = image.shape if self.cameras == 1 else image.shape[1:]
        if image.dtype == np.float32 and 0 < image.max() <= 1:
            warnings.warn(
                f"the frame's values end at {image.max():g}; sigma and the rest are meant for 0 to 255: multiply it by 255",
                stacklevel=3,
            )
        height, width, channels = (*shape, 1)[:3]
        settings = self.settings
        if settings.folding and channels == 1:
            settings = settings._replace(sigma=settings.sigma / math.sqrt(3.0))
        model: Any
        if self.backend == "gpu":  # CuPy is imported only when asked for
            from onkel.video.gpu import fold as folds
            from onkel.video.gpu import paper as papers

            model = folds.Fold if settings.folding else papers.Exact
            self._models = [model(settings, self.cameras, height, width, channels, image.dtype)]
        else:
            from onkel.video.cpu.fold import Fold1
            from onkel.video.cpu.paper import Exact
            from onkel.video.cpu.second import Fold

            model = {"fold": Fold, "fold1": Fold1}.get(settings.rule, Exact)
            self._models = [model(settings, height, width, channels, image.dtype, self.threads) for _ in range(self.cameras)]
        self._shape, self._dtype = image.shape, image.dtype
        self._mask = np.zeros(image.shape[: 2 if self.cameras == 1 else 3], np.uint8)

    def _frames(self, image: np.ndarray) -> np.ndarray:
        lead = self._mask.shape if self.cameras > 1 else (1, *self._mask.shape)
        return np.ascontiguousarray(image).reshape(*lead, -1)

    # --- copies and pickles

    def __getstate__(self) -> dict[str, Any]:
        return {"parts": self._to_file(), "threads": self.threads}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(BackgroundSubtractor._from_file(state["parts"], state["threads"]).__dict__)

    # --- files: onkel.save and onkel.load write and read these two

    def _to_file(self) -> dict[str, Any]:
        """Plain values and arrays: everything needed to go on to the bit."""
        models = self._models
        return {
            "settings": self.settings._asdict(),
            "backend": self.backend,
            "cameras": self.cameras,
            "shape": list(self._shape) if self._shape else None,
            "dtype": str(self._dtype) if self._dtype else None,
            "scalars": [m.scalars() for m in models],
            "arrays": {
                f"{name}{i}": a if type(a) is np.ndarray else a.get()
                for i, m in enumerate(models)
                for name, a in m.arrays().items()
            },
        }

    @classmethod
    def _from_file(cls, header: dict[str, Any], threads: int | None = None) -> BackgroundSubtractor:
        """The inverse of `_to_file`; parameters, shapes and types are checked, nothing in the file is run."""
        arrays, settings = header["arrays"], dict(header["settings"])
        settings["nu"] = settings["nu"] or None
        if settings["rule"] == "fold" and "votes" not in settings:  # written before there was another one
            settings["rule"] = "fold1"
        settings["fold"] = settings["fold"] if settings["fold"] <= 1 else None
        cameras, shape, scalars = header["cameras"], header["shape"], header["scalars"]
        self = cls(**settings, backend=header["backend"], cameras=cameras, threads=threads)
        if shape is None:
            return self
        budget, held = self.settings.budget, sum(array.nbytes for array in arrays.values())
        sides = shape if cameras == 1 else shape[1:]
        must(header["dtype"] in ("uint8", "float32") and all(type(side) is int and side > 0 for side in shape), "its frames")
        must(len(sides) in (2, 3) and sides[2:] in ([], [1], [3]) and shape[: cameras > 1] in ([], [cameras]), "its frames")
        must(len(scalars) == (cameras if self.backend == "cpu" else 1), "its cameras")
        must(budget * math.prod(shape) <= held, "frames larger than its arrays")  # before anything of that size is made
        self._start(np.zeros(shape, header["dtype"]))
        for i, (model, numbers) in enumerate(zip(self._models, scalars, strict=True)):
            for name, value in model.scalars().items():
                setattr(model, name, type(value)(numbers.get(name, value)))
            must(all(is_count(v) if type(v) is int else 0.0 <= v < math.inf for v in model.scalars().values()), "its numbers")
            must(1e-6 <= model.scale <= 1.0, "its decay")
            for name, mine in model.arrays().items():
                theirs = arrays[f"{name}{i}"]
                must(
                    is_array(theirs, mine.shape, mine.dtype),
                    f"its {name}: {theirs.shape} {theirs.dtype} for {mine.shape} {mine.dtype}",
                )
                must(theirs.dtype.kind != "f" or np.isfinite(theirs).all(), f"its {name}")
                if name == "used":  # compiled code trusts it
                    must(theirs.min() >= 1 and theirs.max() <= budget, "its counts of stored colours")
                if name == "coef":
                    most = LARGEST * (self.settings.rho + self.settings.C)
                    must(theirs.min() >= 0.0 and float(theirs.max()) * model.scale <= most, "its coefficients")
                mine[...] = theirs if self.backend == "cpu" else model.cp.asarray(theirs)
        return self

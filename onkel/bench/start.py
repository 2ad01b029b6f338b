"""`onkel bench start`: how long the first things take, in a process of its own each time: cold, which is with nothing compiled yet,
and warm, with the machine code on disk that the cold one has left there.

CPU seconds, so that other people's work on the machine counts as little as it can; of warm starts the shortest is believed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

from .bulk import Size
from .measure import Contender, Race, Results, children_time
from .rows import AT_MOST, Row

# Each part of a program is one line of the table, from where the part before it has ended.
PROGRAMS = {
    "estimators": {
        "import": "import numpy as np; from onkel import KernelClassifier",
        "first fit": """
X = np.random.default_rng(0).normal(size=(1000, 2))
model = KernelClassifier().partial_fit(X, np.sign(X[:, 0] * X[:, 1]))""",
        "first row": "model.learn_one(X[0], 1.0); model.predict_one(X[1])",
    },
    "commands": {
        "help": """
import contextlib, io
from onkel.cli import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main(["--help"])""",
    },
    "video": {
        "import for video": "import numpy as np; from onkel.video import BackgroundSubtractor",
        # the first one only begins the background, the next is the first to be judged
        "first video frame": """
subtractor = BackgroundSubtractor()
for frame in np.random.default_rng(0).integers(0, 255, (2, 120, 160, 3), dtype=np.uint8):
    subtractor.apply(frame)""",
    },
}
ORDER = "import", "help", "first fit", "first row", "import for video", "first video frame"
FIRST_LEARN = """
import numpy as np, onkel
X = np.random.default_rng(0).normal(size=(1000, 2)).astype(np.float32)
learner = onkel.silk(onkel.RBF(0.5), onkel.Hinge(), budget=100)
learner.learn(learner.init(), X, np.sign(X[:, 0]))
"""
FIRST_CALL = """
import numpy as np
from onkel.bench.idle import nothing
nothing(np.zeros(1, np.float32))
"""


def report(arguments: argparse.Namespace) -> None:
    cold, warm = {}, {}
    for name, parts in PROGRAMS.items():
        print(f"{name} ...", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as empty:
            cold.update(seconds(parts, empty))
            runs = [seconds(parts, empty) for _ in range(1 if arguments.quick else 3)]
        warm.update({part: min(run[part] for run in runs) for part in parts})
    print("\n".join(table(cold, warm)))


def seconds(parts: dict[str, str], folder: str) -> dict[str, float]:
    """CPU seconds of each part of a program, in a new process that keeps machine code in this folder."""
    notes = "".join(f"{code}\nnoted.append(time.process_time())\n" for code in parts.values())
    code = f"import time; noted = [0.0]\n{notes}print('noted', *noted)"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment() | {"NUMBA_CACHE_DIR": folder}
    )
    ends = [float(word) for word in done.stdout.splitlines()[-1].split()[1:]]
    return {part: end - begin for part, begin, end in zip(parts, ends, ends[1:], strict=False)}


def table(cold: dict[str, float], warm: dict[str, float]) -> list[str]:
    """Two rows for each thing.

    >>> print("\\n".join(table({"first fit": 4.0}, {"first fit": 0.125})))
                              CPU seconds
    first fit          cold          4.00
                       warm          0.12
    """
    lines = [f"{'':26}CPU seconds"]
    for name in ORDER:
        if name in cold:
            lines += [f"{name:<19}cold{cold[name]:14.2f}", f"{'':19}warm{warm[name]:14.2f}"]
    return lines


def environment() -> dict[str, str]:
    """Ours, but a process may leave its modules compiled, as any first start does."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def start(size: Size) -> Iterator[Race]:
    """A new process: import and first learn, with Numba's cache on disk, over importing NumPy; one small function's share of it."""

    def process(code: str) -> Callable[[int], Any]:
        code += "\nimport os; os._exit(0)"  # taking a process down is not part of its start
        return lambda r: subprocess.run([sys.executable, "-c", code], check=True, env=environment()) and None

    def rows(results: Results) -> list[Row]:
        title, first = "a new process: import, first learn", results["import onkel and learn"]

        def more(name: str, target: float | None) -> Row:
            least = results[name].median
            return Row(title, name, first.median - least, "s more", AT_MOST, target, first.median, least)

        return [more("import numpy", 0.6), more("one cached function", None)]

    yield Race(
        "start",
        [
            Contender("import numpy", process("import numpy"), 1, children_time),
            Contender("one cached function", process(FIRST_CALL), 1, children_time),
            Contender("import onkel and learn", process(FIRST_LEARN), 1, children_time),
        ],
        rows,
        rounds=max(3, size.rounds // 2),
    )

"""The disk cache: machine code is found again, and a cache that can no longer be read is made anew."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numba

SOURCE = """
from onkel.core.machine.compiled import compiled

@compiled
def twice(x):
    return x + x
"""
LOOK = """
from doubled import twice
assert twice(1.5) == 3.0
print(sum(twice.stats.cache_misses.values()), twice._cache._cache_file._index_path)
"""


def test_an_index_that_names_a_class_that_has_moved_is_as_good_as_none(tmp_path):
    (tmp_path / "doubled.py").write_text(SOURCE)

    def misses_and_index():
        """Of a new process."""
        paths = f"import sys; sys.path[:0] = {[str(tmp_path), str(Path(__file__).resolve().parents[2])]}"
        result = subprocess.run([sys.executable, "-c", paths + LOOK], capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        misses, index = result.stdout.strip().split(" ", 1)
        return int(misses), Path(index)

    misses, index = misses_and_index()
    assert misses == 1
    assert misses_and_index() == (0, index)
    index.write_bytes(pickle.dumps(numba.__version__) + b"conkel.core.maths.losses\nMoved\n.")
    assert misses_and_index() == (1, index)
    assert misses_and_index() == (0, index)

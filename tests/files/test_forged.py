"""Files forged by someone who knows about the seals: refused, or models that learn on.  See forgery.py."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.files import forgery

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux to fork and to limit memory")
SMALL = "silk,project,svmd,sparse,tree,waiting,waiting sparse,related,river,run,fold"


def forge(tmp_path, *arguments, **environment):
    command = [sys.executable, "-m", "tests.files.forgery", "--keep", str(tmp_path / "kept"), *arguments]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], env={**os.environ, **environment}, capture_output=True, text=True, timeout=3600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(pair.split("=") for pair in done.stdout.split())


def test_forged_files_of_some_kinds(tmp_path):
    tally = forge(tmp_path, "--count", "220", "--kinds", SMALL)
    assert int(tally["refused"]) > 100


@pytest.mark.slow
def test_forged_files_of_every_kind(tmp_path):
    tally = forge(tmp_path, "--count", "2600", "--seed", "7")
    assert int(tally["refused"]) > 1000
    assert int(tally["taken"]) > 200
    assert int(tally.get("cold", 0)) < 100


@pytest.mark.slow
def test_forged_files_with_bounds_checks(tmp_path):
    """Numba looks at every index: what is merely lucky in the machine code above is an IndexError here."""
    forge(tmp_path, "--count", "800", "--seed", "8", NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=str(tmp_path / "cache"))


def test_the_forge_would_notice(tmp_path):
    """A crash, a hang, too much memory and numbers that are not finite count as failures."""
    model = forgery.KINDS["fresh"]()
    blob = forgery.persist.dumps(model)
    honest, _ = forgery.trial("silk", blob)
    assert honest in (forgery.TAKEN, forgery.COLD)
    for harm in (
        lambda *_: os.kill(os.getpid(), 11),
        lambda *_: bytearray(2**29),
        lambda *_: forgery.finite(SimpleNamespace(coef=np.array([np.nan]), trace_coef=np.zeros(0), offset=0.0)),
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(forgery, "use", harm)
            assert forgery.trial("silk", blob)[0] == forgery.FAILED

"""What all tests share: a quiet, repeatable hypothesis, and the way to data that is not part of the repository."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# No deadline: the first example of a law may compile. Derandomised: a red check is red for everybody.
settings.register_profile("onkel", deadline=None, derandomize=True)
settings.load_profile("onkel")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real data sets: $ONKEL_DATA, else ../shared/data; without either the test is skipped."""
    named = os.environ.get("ONKEL_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("needs real data: set ONKEL_DATA to its folder")
    return folder

"""Both ways to kernel values, as fixtures."""

import pytest

from onkel.core import drive as engine


@pytest.fixture(params=["direct", "rows"])
def path(request, monkeypatch):
    """Kernel values computed in the loop, or taken from matrices."""
    if request.param == "rows":
        monkeypatch.setattr(engine, "DIRECT_SIZE", 0)
    return request.param


@pytest.fixture
def rows(monkeypatch):
    """Kernel values from matrices alone: for kernels that would otherwise have to be compiled with every loss."""
    monkeypatch.setattr(engine, "DIRECT_SIZE", 0)

"""A door of every kind, which has learned a little."""

import pytest

from tests.estimators.doors import DOORS, aims, data


@pytest.fixture(params=DOORS)
def door(request):
    door = DOORS[request.param]()
    X, _ = data(30)
    door.learn(X, aims(door, 30))
    return door

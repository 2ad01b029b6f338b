"""The table of drift detectors: streams that change where they say, and what a run is worth."""

import numpy as np

from onkel.bench import drift


class At:
    """Speaks once."""

    def __init__(self, when):
        self.when, self.n, self.drift_detected = when, 0, False

    def update(self, value):
        self.n += 1
        self.drift_detected = self.n == self.when


def test_delay_and_false_alarms_are_counted_from_the_change():
    streams = {stream.name: stream for stream in drift.streams(400)}
    assert len(streams) >= 6
    assert {stream.change for stream in streams.values()} == {200, None}
    swap = streams["classes swap"]
    assert drift.outcome(swap, At(220), "forget")[:2] == (19.0, 0)
    calm = drift.outcome(streams["classes, no change"], At(401), "restart")
    assert np.isnan(calm.delay)
    assert calm == drift.Outcome(calm.delay, 0, drift.outcome(streams["classes, no change"], None, "forget").error)


def test_each_stream_begins_with_no_detector():
    lines = drift.table(120)
    assert lines[0].split() == ["stream", "detector", "delay", "false", "forget", "shrink", "restart"]
    assert sum(" none " in line for line in lines) == 8

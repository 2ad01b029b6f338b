"""The GPU computes what the CPU computes."""

from __future__ import annotations

import numpy as np
import pytest

from onkel.video import BackgroundSubtractor

from .scenes import film


@pytest.fixture(scope="module", autouse=True)
def _device():
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    try:
        cupy.cuda.runtime.getDeviceCount()
    except Exception as error:
        pytest.skip(f"no CUDA device: {error}")


@pytest.mark.parametrize("rule", ["silk", "norma", "fold"])
@pytest.mark.parametrize("kind", ["static", "flicker", "shake", "ramp", "switch"])
def test_masks_and_scores_equal_the_cpu(rule, kind):
    cpu, gpu = BackgroundSubtractor(rule, threads=1), BackgroundSubtractor(rule, backend="gpu")
    differing = []
    for frame, _ in film(kind):
        a, b = cpu.apply(frame), gpu.apply(frame)
        differing.append(np.mean(a != b))
    assert np.mean(differing) <= 1e-4
    close = np.abs(cpu.scores - gpu.scores) < 2e-3
    assert close.mean() > 0.999
    assert np.mean(np.any(cpu.getBackgroundImage() != gpu.getBackgroundImage(), axis=-1)) < 0.02


def test_grey_frames():
    cpu, gpu = BackgroundSubtractor("silk", threads=1), BackgroundSubtractor("silk", backend="gpu")
    for frame, _ in film("flicker", 40, 20):
        a, b = cpu.apply(frame[..., 1]), gpu.apply(frame[..., 1])
    assert np.mean(a != b) < 2e-4


@pytest.mark.parametrize("rule", ["silk", "fold"])
def test_freezing_saving_and_cameras(rule):
    frames = [frame for frame, _ in film("flicker", 60, 30)]
    gpu, pair = BackgroundSubtractor(rule, backend="gpu"), BackgroundSubtractor(rule, backend="gpu", cameras=2)
    for t, frame in enumerate(frames[:40]):
        mask = gpu.apply(frame)
        both = pair.apply(np.stack([frame, frames[39 - t]]))
        assert np.array_equal(mask, both[0])
    header, arrays = gpu._to_file()
    frozen = gpu.apply(frames[45], learningRate=0)
    after = gpu._to_file()
    assert header == after[0]
    assert all(np.array_equal(arrays[k], after[1][k]) for k in arrays)
    again = BackgroundSubtractor._from_file(header, arrays)
    assert np.array_equal(again.apply(frames[45], learningRate=0), frozen)
    for frame in frames[40:]:
        assert np.array_equal(gpu.apply(frame), again.apply(frame))


def test_streaming_gives_the_same_masks():
    frames = [frame for frame, _ in film("static", 50, 20)]
    one, many = BackgroundSubtractor("silk", backend="gpu"), BackgroundSubtractor("silk", backend="gpu")
    expected = [one.apply(frame) for frame in frames]
    for mask, right in zip(many.stream(frames), expected, strict=True):
        assert np.array_equal(mask, right)


def test_only_bytes():
    with pytest.raises(ValueError, match="uint8"):
        BackgroundSubtractor(backend="gpu").apply(np.zeros((4, 4), np.float32))

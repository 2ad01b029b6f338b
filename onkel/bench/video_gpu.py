"""Background subtraction on a graphics card: frames per second beside the bandwidth that was measured in the same run."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from onkel.video import BackgroundSubtractor
from onkel.video.judge.sequences import rectangles

SIZES = {"640x480": (480, 640), "1920x1080": (1080, 1920), "3840x2160": (2160, 3840)}


def scene(height: int, width: int, n: int, objects_from: int, seed: int = 0) -> list[np.ndarray]:
    return [frame for frame, _ in rectangles(height, width, n, objects_from, seed)]


def copy_bandwidth(cp: Any, gib: float = 4.0) -> float:
    """Bytes read plus bytes written per second of a device-to-device copy."""
    a = cp.zeros(int(gib * 2**30) // 4, cp.float32)
    b = cp.empty_like(a)
    cp.copyto(b, a)
    seconds = device_seconds(cp, lambda: cp.copyto(b, a), 10)
    return 2 * a.nbytes / seconds


def device_seconds(cp: Any, work: Callable[[], Any], repeat: int) -> float:
    """Seconds per call, best of five batches between two events."""
    work()
    best = float("inf")
    for _ in range(5):
        begin, end = cp.cuda.Event(), cp.cuda.Event()
        begin.record()
        for _ in range(repeat):
            work()
        end.record()
        end.synchronize()
        best = min(best, cp.cuda.get_elapsed_time(begin, end) / 1e3 / repeat)
    return best


def report(arguments: argparse.Namespace) -> None:
    print("\n".join(gpu_report()))


def gpu_rows() -> list[str]:
    """The GPU part, or a line that says why there is none."""
    try:
        return gpu_report()
    except RuntimeError as error:
        return [f"left out: the GPU part; {error}"]


def gpu_report() -> list[str]:
    """Frames per second, traffic against copy bandwidth, cameras, streaming from the host, agreement with the CPU."""
    from onkel.video.gpu import cupy

    cp = cupy()
    bandwidth = copy_bandwidth(cp)
    lines = [f"device copy bandwidth {bandwidth / 1e12:.2f} TB/s, measured in this run"]
    for rule in ("silk", "fold1"):
        for name, (height, width) in SIZES.items():
            lines.append(f"{rule:5} {name:10} {resident(cp, rule, height, width, bandwidth)}")
    lines.append(many_cameras(cp))
    lines += streaming(cp)
    return lines + agreement()


def resident(cp: Any, rule: str, height: int, width: int, bandwidth: float, distinct: int = 24) -> str:
    """Frames that already lie on the device, `distinct` ones in turn, one at a time.

    Traffic counts state and frame read and mask written; for silk also, as "all", a sector of 32 bytes written for every pixel
    that learned, counted after the timing.
    """
    subtractor = BackgroundSubtractor(rule, backend="gpu")
    subtractor.apply(np.zeros((height, width, 3), np.uint8))
    model = subtractor._models[0]
    model.keep_scores = False
    frames = [cp.zeros((1, model.padded, 3), cp.uint8) for _ in range(distinct)]
    for slot, frame in zip(frames, scene(height, width, distinct, 8), strict=True):
        slot[:, : model.pixels] = cp.asarray(frame).reshape(1, model.pixels, -1)
    for i in range(2 * distinct):
        model.step(frames[i % distinct], True)
    order = iter(range(10**9))
    repeat = 96 if height < 2000 else 48
    learning = device_seconds(cp, lambda: model.step(frames[next(order) % distinct], True), repeat)
    frozen = device_seconds(cp, lambda: model.step(frames[next(order) % distinct], False), repeat)
    read = subtractor.nbytes + 4 * model.total
    share = f"{read / learning / bandwidth:.1%} of copy rate"
    if rule == "silk":
        before = model.state.copy()
        model.step(frames[next(order) % distinct], True)
        written = 32 * int((before != model.state).any(axis=2).sum())
        share += f" by reads, {(read + written) / learning / bandwidth:.1%} with the writes ({written / model.total:.1f} B a pixel)"
    return (
        f"{1 / learning:8.0f} fps = {share}; frozen {1 / frozen:.0f} fps = {read / frozen / bandwidth:.1%}; "
        f"{1 / learning / 30:.0f} cameras at 30 fps; state {subtractor.nbytes / 2**20:.0f} MiB"
    )


def many_cameras(cp: Any, cameras: int = 16) -> str:
    """Several 1080p cameras in one object."""
    many = BackgroundSubtractor("silk", backend="gpu", cameras=cameras)
    clips = [scene(1080, 1920, 12, 4, seed) for seed in range(2)]
    for t in range(12):
        many.apply(np.stack([clips[c % 2][t] for c in range(cameras)]))
    model = many._models[0]
    model.keep_scores = False
    seconds = device_seconds(cp, lambda: model.step(model.lanes[0].frame, True), 40)
    return f"silk  {cameras} cameras of 1920x1080 in one object: {cameras / seconds:.0f} frames/s together"


def streaming(cp: Any, count: int = 120) -> list[str]:
    """4K frames from host memory, against the bare link and the bare copy into pinned memory."""
    from onkel.video.gpu import copy, pinned

    height, width = SIZES["3840x2160"]
    frames = scene(height, width, 10, 3)
    in_place = [pinned(frame.shape) for frame in frames]
    for target, frame in zip(in_place, frames, strict=True):
        target[...] = frame
    subtractor, out = BackgroundSubtractor("silk", backend="gpu"), np.zeros((height, width), np.uint8)
    subtractor.apply(frames[0], out)
    model = subtractor._models[0]
    model.keep_scores = False
    device = cp.zeros(frames[0].nbytes, cp.uint8)
    link = device_seconds(cp, lambda: device.set(in_place[0].reshape(-1)), 20)
    back = device_seconds(cp, lambda: device[: height * width].get(out=in_place[0].reshape(-1)[: height * width]), 20)

    def seconds(work: Callable[[list[np.ndarray]], Any], images: list[np.ndarray]) -> float:
        order = [images[i % len(images)] for i in range(count)]
        work(order[:12])
        rounds = []
        for _ in range(3):
            begin = time.perf_counter()
            work(order)
            rounds.append((time.perf_counter() - begin) / count)
        return float(np.median(rounds))

    def staged(images: list[np.ndarray]) -> None:
        for image in images:
            copy(in_place[0], image)

    def applied(images: list[np.ndarray]) -> None:
        for image in images:
            subtractor.apply(image, out)

    def streamed(images: list[np.ndarray]) -> None:
        for _ in model.stream(images):
            pass

    staging = seconds(staged, frames)
    lines = [
        f"silk  3840x2160 from the host: link alone {1 / link:.0f} fps ({link * 1e3:.2f} ms a frame up, {back * 1e3:.2f} ms a mask "
        f"down), copy into pinned memory alone {1 / staging:.0f} fps"
    ]
    for what, work in (("apply", applied), ("stream", streamed)):
        for where, images in (("ordinary", frames), ("pinned", in_place)):
            took = seconds(work, images)
            lines.append(f"      {what:6} {where:8} arrays {1 / took:6.0f} fps = {link / took:.0%} of the link's rate")
    return lines


def agreement(frames: int = 80) -> list[str]:
    """Share of pixels whose GPU mask differs from the CPU's over a 640x480 scene."""
    lines = []
    for rule in ("silk", "norma", "fold1"):
        cpu, gpu, differing = BackgroundSubtractor(rule), BackgroundSubtractor(rule, backend="gpu"), []
        for frame in scene(480, 640, frames, 30):
            differing.append(np.mean(cpu.apply(frame) != gpu.apply(frame)))
        lines.append(f"{rule:5} masks differ from the CPU's on {np.mean(differing):.5%} of pixels, at worst {max(differing):.5%}")
    return lines

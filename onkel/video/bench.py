"""`onkel bench video`: our frames per second beside MOG2's and KNN's in one run, and the GPU beside its own bandwidth."""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from .subtractor import BackgroundSubtractor

SIZES = {"320x240": (240, 320), "640x480": (480, 640), "1280x720": (720, 1280)}
GPU_SIZES = {"640x480": (480, 640), "1920x1080": (1080, 1920), "3840x2160": (2160, 3840)}


def scene(height: int, width: int, frames: int, objects_from: int = 30, seed: int = 0) -> Iterator[np.ndarray]:
    """Coloured tiles with sensor noise of 4 grey levels, a flickering band, and six moving rectangles."""
    rng = np.random.default_rng(seed)
    tiles = rng.integers(30, 226, (-(-height // 16), -(-width // 16), 3))
    still = np.kron(tiles, np.ones((16, 16, 1), np.int64))[:height, :width].astype(np.float32)
    noise = rng.normal(0, 4, (height + 64, width + 64, 3)).astype(np.float32)
    for t in range(frames):
        image = still.copy()
        if t % 3 == 0:
            image[height // 4 : height // 3] += 40.0
        for k in range(6 if t >= objects_from else 0):
            y, x = int(height * (0.1 + 0.13 * k)), (3 * t + 97 * k) % (width - width // 8)
            image[y : y + height // 10, x : x + width // 12] = (40 * k, 255 - 40 * k, 20 * k)
        dy, dx = rng.integers(0, 64, 2)
        yield np.clip(image + noise[dy : dy + height, dx : dx + width], 0, 255).astype(np.uint8)


def cpu_rows(frames_per_round: int = 10, rounds: int = 7) -> list[tuple[str, dict[str, float]]]:
    """Milliseconds of CPU time per frame, medians over rounds; the contenders take turns, ten frames each."""
    import cv2

    cv2.setNumThreads(1)
    rows = []
    for name, (height, width) in SIZES.items():
        frames, out = list(scene(height, width, 60)), np.zeros((height, width), np.uint8)
        contenders: dict[str, Any] = {
            "silk": BackgroundSubtractor("silk", threads=1),
            "default": BackgroundSubtractor(threads=1),
            "MOG2": cv2.createBackgroundSubtractorMOG2(detectShadows=False),
            "KNN": cv2.createBackgroundSubtractorKNN(detectShadows=False),
        }
        for subtractor in contenders.values():
            for frame in frames:
                subtractor.apply(frame, out)
        times: dict[str, list[float]] = {key: [] for key in contenders}
        for turn in range(rounds):
            for key, subtractor in contenders.items():
                part = [frames[30 + (turn * frames_per_round + i) % 30] for i in range(frames_per_round)]
                begin = time.process_time()
                for frame in part:
                    subtractor.apply(frame, out)
                times[key].append((time.process_time() - begin) / frames_per_round * 1e3)
        rows.append((name, {key: float(np.median(v)) for key, v in times.items()}))
    return rows


def seconds_together(runs: list[Callable[[], None]]) -> float:
    """Wall time until all of the runs, one thread each, are through."""
    start = threading.Barrier(len(runs) + 1)
    threads = [threading.Thread(target=lambda run=run: (start.wait(), run())) for run in runs]
    for thread in threads:
        thread.start()
    start.wait()
    begin = time.perf_counter()
    for thread in threads:
        thread.join()
    return time.perf_counter() - begin


def thread_gain(rounds: int = 25) -> Iterator[tuple[str, str, float, float]]:
    """(rule, size, gain, limit): wall time of one thread over that of two, best of short interleaved rounds.

    `limit` is what the machine allows at that moment: the frames per second of two separate one-thread subtractors side by
    side over those of one. Nothing that shares a frame between two threads can be expected to gain more.
    """
    for rule in ("silk", "fold"):
        for name, (height, width) in SIZES.items():
            frames, count = list(scene(height, width, 24, 8)), max(4, 2_000_000 // (height * width))
            subtractors = [BackgroundSubtractor(rule, threads=threads) for threads in (1, 1, 2)]

            def run(subtractor: BackgroundSubtractor, count: int = count, frames: list[np.ndarray] = frames) -> None:
                out = np.zeros(frames[0].shape[:2], np.uint8)
                for i in range(count):
                    subtractor.apply(frames[8 + i % 16], out)

            single, other, double = (partial(run, subtractor) for subtractor in subtractors)
            for warm in (single, other, double):
                warm()
            walls = [[seconds_together(runs) for runs in ([single], [single, other], [double])] for _ in range(rounds)]
            one, both, two = np.min(walls, 0)
            yield rule, name, float(one / two), float(2 * one / both)


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


def gpu_rows() -> list[str]:
    """The GPU part, or a line that says why there is none."""
    try:
        return gpu_report()
    except RuntimeError as error:
        return [f"left out: the GPU part; {error}"]


def gpu_report() -> list[str]:
    """Frames per second, traffic against copy bandwidth, cameras, streaming from the host, agreement with the CPU."""
    from .gpu import cupy

    cp = cupy()
    bandwidth = copy_bandwidth(cp)
    lines = [f"device copy bandwidth {bandwidth / 1e12:.2f} TB/s, measured in this run"]
    for rule in ("silk", "fold"):
        for name, (height, width) in GPU_SIZES.items():
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
    clips = [list(scene(1080, 1920, 12, 4, seed=s)) for s in range(2)]
    for t in range(12):
        many.apply(np.stack([clips[c % 2][t] for c in range(cameras)]))
    model = many._models[0]
    model.keep_scores = False
    seconds = device_seconds(cp, lambda: model.step(model.lanes[0].frame, True), 40)
    return f"silk  {cameras} cameras of 1920x1080 in one object: {cameras / seconds:.0f} frames/s together"


def streaming(cp: Any, count: int = 120) -> list[str]:
    """4K frames from host memory, against the bare link and the bare copy into pinned memory."""
    from .gpu import copy, pinned

    height, width = GPU_SIZES["3840x2160"]
    frames = list(scene(height, width, 10, 3))
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
    for rule in ("silk", "norma", "fold"):
        cpu, gpu, differing = BackgroundSubtractor(rule), BackgroundSubtractor(rule, backend="gpu"), []
        for frame in scene(480, 640, frames):
            differing.append(np.mean(cpu.apply(frame) != gpu.apply(frame)))
        lines.append(f"{rule:5} masks differ from the CPU's on {np.mean(differing):.5%} of pixels, at worst {max(differing):.5%}")
    return lines


def bench_video(argv: list[str] | None = None) -> int:
    """Print the whole comparison."""
    parser = argparse.ArgumentParser("onkel bench video", description=__doc__)
    parser.add_argument("--gpu", action="store_true", help="the GPU part only")
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args(argv)
    if args.gpu:
        print("\n".join(gpu_report()))
        return 0
    print("CPU time per frame in ms, one thread, shadows off, medians of interleaved rounds; ratios of frames per second")
    print(f"{'size':10}{'silk':>8}{'default':>9}{'MOG2':>8}{'KNN':>8}   silk/MOG2  silk/KNN  default/MOG2  default/KNN")
    for name, ms in cpu_rows(rounds=args.rounds):
        print(
            f"{name:10}{ms['silk']:8.2f}{ms['default']:9.2f}{ms['MOG2']:8.2f}{ms['KNN']:8.2f}   {ms['MOG2'] / ms['silk']:8.2f}x"
            f"{ms['KNN'] / ms['silk']:9.2f}x{ms['MOG2'] / ms['default']:13.2f}x{ms['KNN'] / ms['default']:12.2f}x",
            flush=True,
        )
    print(
        "two threads over one, wall clock, best rounds (and two separate subtractors side by side over one: this machine's limit)"
    )
    for rule, name, gain, limit in thread_gain():
        print(f"{rule:5} {name:10}{gain:6.2f}x  ({limit:.2f}x)", flush=True)
    print("\n".join(gpu_rows()))
    return 0

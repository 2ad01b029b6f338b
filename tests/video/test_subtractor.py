"""The subtractor against slow plain Python, against the core, and on scenes with known masks."""

from __future__ import annotations

import copy
import pickle
import tracemalloc

import numpy as np
import pytest

from onkel.video import BackgroundSubtractor
from onkel.video.judge.sequences import rectangles

from .scenes import HEIGHT, WIDTH, backdrop, f_score, film


def plain_pixel(stream, rule, budget=20, sigma=20.0, C=0.12, lam=0.001, rho=1.0):
    """One pixel's scores in float64, as the specification prints the rule; oldest first."""
    points, coef, scores = [], [], []
    shrink = 1 / (1 + lam) if rule == "silk" else 1 - lam
    for x in stream.astype(float):
        f = sum(a * np.exp(-((p - x) ** 2).sum() / (2 * sigma**2)) for p, a in zip(points, coef, strict=True))
        scores.append(f)
        a = min(max(rho - shrink * f, 0), shrink * C) if rule == "silk" else C * (f < rho)
        coef = [c * shrink for c in coef]
        if a > 0:
            points.append(x)
            coef.append(a)
            if len(coef) > budget:
                drop = int(np.argmin(coef))  # argmin takes the first, that is the oldest, of equals
                del points[drop], coef[drop]
    return np.array(scores)


@pytest.fixture(scope="module")
def stream():
    rng = np.random.default_rng(3)
    modes = rng.integers(40, 200, (3, 3))
    return np.clip(modes[rng.integers(0, 3, 300)] + rng.normal(0, 6, (300, 3)), 0, 255).astype(np.uint8)


@pytest.mark.parametrize("rule", ["silk", "norma"])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("channels", [3, 1])
def test_every_pixel_follows_the_printed_rule(stream, rule, dtype, channels):
    subtractor = BackgroundSubtractor(rule, threads=1)
    frames = stream[:, None, None, :channels].astype(dtype)
    frames = np.concatenate([frames, frames[::-1]], axis=2)  # two pixels with different histories
    scores = []
    for frame in frames:
        subtractor.apply(frame if channels == 3 else frame[..., 0])
        scores.append(subtractor.scores[0])
    expected = np.stack([plain_pixel(frames[:, 0, i], rule) for i in range(2)], 1)
    np.testing.assert_allclose(scores, expected, atol=2e-4)


@pytest.mark.parametrize("sigma", [3.0, 43.0, 46.0, 150.0])
def test_every_width_of_the_kernel_follows_the_printed_rule(sigma):
    """Distances of bytes saturate in 16 bits, and are computed in floats where that would show: on either side of the border."""
    frames = np.random.default_rng(7).integers(0, 256, (120, 1, 1, 3), dtype=np.uint8)
    subtractor, scores = BackgroundSubtractor("silk", sigma=sigma, threads=1), []
    for frame in frames:
        subtractor.apply(frame)
        scores.append(subtractor.scores.item())
    np.testing.assert_allclose(scores, plain_pixel(frames[:, 0, 0], "silk", sigma=sigma), atol=2e-4)


@pytest.mark.parametrize("rule", ["silk", "norma"])
def test_a_one_pixel_video_is_the_core_learner(stream, rule):
    onkel = pytest.importorskip("onkel")
    if not hasattr(onkel, rule):
        pytest.skip("the core is not there")
    kernel, loss = onkel.RBF(sigma=20.0), onkel.Novelty(1.0)
    learner = (
        onkel.silk(kernel, loss, eta=1.0, lam=0.001, C=0.12, budget=20)
        if rule == "silk"
        else onkel.norma(kernel, loss, eta=1.0, lam=0.001, C=0.12, budget=20)
    )
    _state, trace = learner.learn(learner.init(), stream.astype(float), None)
    subtractor = BackgroundSubtractor(rule, budget=20, threads=1)
    scores = []
    for x in stream:
        subtractor.apply(x.reshape(1, 1, 3))
        scores.append(subtractor.scores.item())
    np.testing.assert_allclose(scores, trace.scores, atol=2e-4)


@pytest.mark.parametrize("rule", ["fold", "fold1", "silk", "norma"])
@pytest.mark.parametrize("kind", ["static", "flicker", "shake", "ramp"])
def test_finds_the_square_in_every_scene(rule, kind):
    subtractor = BackgroundSubtractor(rule, median=True, threads=1)
    scores = [f_score(subtractor.apply(frame) > 0, mask) for frame, mask in film(kind)][82:]
    floor = {"ramp": 0.2}.get(kind, 0.85) if rule != "fold" else 0.85
    assert np.mean(scores) > floor


def test_the_default_bears_restless_water():
    subtractor = BackgroundSubtractor(threads=1)
    scores = [f_score(subtractor.apply(frame) > 0, mask) for frame, mask in film("restless")][82:]
    assert np.mean(scores) > 0.8


def test_the_default_outlives_a_light_switch():
    shares = [
        float((BackgroundSubtractor.apply(s, frame) > 0).mean())
        for s in [BackgroundSubtractor(threads=1)]
        for frame, _ in film("switch", objects_from=999)
    ]
    assert max(shares) < 0.05
    paper = BackgroundSubtractor("silk", median=True, threads=1)
    assert max(float((paper.apply(frame) > 0).mean()) for frame, _ in film("switch", objects_from=999)) > 0.5


def test_a_stopped_object_is_learned_and_a_left_one_forgotten_slowly():
    subtractor, scene = BackgroundSubtractor("fold1", threads=1), backdrop().astype(np.uint8)
    for _ in range(200):  # past the start, where everything is learned faster
        subtractor.apply(scene)
    parked = scene.copy()
    parked[20:40, 20:40] = (240, 10, 10)
    shares = [float((subtractor.apply(parked)[20:40, 20:40] > 0).mean()) for _ in range(300)]
    assert shares[150] > 0.8
    assert shares[-1] == 0.0


@pytest.mark.parametrize("colour", [(90, 90, 90), (40, 40, 40), (180, 175, 185), (60, 60, 160)])
def test_light_does_not_explain_a_plain_thing_on_a_plain_ground(colour):
    """A change of light could explain every inner pixel of a grey box on a grey floor; it must still be found."""
    rng, subtractor, scores = np.random.default_rng(5), BackgroundSubtractor(threads=1), []
    for t in range(80):
        image, mask = np.full((120, 160, 3), 130.0), np.zeros((120, 160), bool)
        if t >= 60:
            mask[40:80, max(0, 4 * (t - 66)) : max(0, 4 * (t - 60))] = True  # comes in from the left, 24 wide
            image[mask] = colour
        found = subtractor.apply(np.clip(image + rng.normal(0, 3, image.shape), 0, 255).astype(np.uint8)) > 0
        if t >= 66:
            scores.append(f_score(found, mask))
    assert np.mean(scores) > 0.85


@pytest.mark.parametrize("rule", ["fold", "fold1", "silk"])
def test_zero_learning_rate_freezes_everything(rule):
    subtractor = BackgroundSubtractor(rule, threads=1)
    frames = [frame for frame, _ in film("static")]
    for frame in frames[:95]:
        subtractor.apply(frame)
    before_header = subtractor._to_file()
    before = {k: v.copy() for k, v in before_header.pop("arrays").items()}
    mask = subtractor.apply(frames[96], learningRate=0)
    scores = subtractor.scores
    again = subtractor.apply(frames[96], learningRate=0)
    after_header = subtractor._to_file()
    after = after_header.pop("arrays")
    assert after_header == before_header
    assert all(np.array_equal(before[k], after[k]) for k in before)
    assert np.array_equal(mask, again)
    assert mask.any()
    assert scores.min() < 0.2
    live = subtractor.apply(frames[96])
    assert np.array_equal(live, mask)


@pytest.mark.parametrize("rule", ["fold", "fold1", "silk", "norma"])
def test_saved_and_continued_to_the_bit(rule):
    frames = [frame for frame, _ in film("flicker", 100)]
    straight, first = BackgroundSubtractor(rule, threads=2), BackgroundSubtractor(rule, threads=1)
    for frame in frames[:60]:
        first.apply(frame)
        straight.apply(frame)
    parts = first._to_file()
    arrays = {k: v.copy() for k, v in parts["arrays"].items()}
    second = BackgroundSubtractor._from_file({**parts, "arrays": arrays})
    for frame in frames[60:]:
        assert np.array_equal(straight.apply(frame), second.apply(frame))
        assert np.array_equal(straight.scores, second.scores)
    assert second.nbytes == sum(a.nbytes for a in arrays.values()) == straight.nbytes


@pytest.mark.parametrize("rule", ["fold", "fold1", "silk"])
def test_threads_change_not_a_bit(rule):
    alone, together = BackgroundSubtractor(rule, threads=1), BackgroundSubtractor(rule, threads=3)
    for frame, _ in rectangles(384, 352, 24, 8):  # large enough that rows are shared too
        assert np.array_equal(alone.apply(frame), together.apply(frame))
        assert np.array_equal(alone.scores, together.scores)
    header, other_header = alone._to_file(), together._to_file()
    arrays, other = header.pop("arrays"), other_header.pop("arrays")
    assert header == other_header
    assert all(np.array_equal(arrays[name], other[name]) for name in arrays)


def test_first_frame_is_background_under_every_rule():
    for rule in ("fold", "fold1", "silk", "norma"):
        subtractor = BackgroundSubtractor(rule)
        frame = backdrop().astype(np.uint8)
        for _ in range(12):
            assert not subtractor.apply(frame).any()
        np.testing.assert_array_equal(subtractor.getBackgroundImage(), frame)


def test_many_cameras_are_many_subtractors():
    films = [[frame for frame, _ in film(kind, 30, 10)] for kind in ("static", "shake")]
    both, single = BackgroundSubtractor(cameras=2, threads=1), [BackgroundSubtractor(threads=1) for _ in range(2)]
    for pair in zip(*films, strict=True):
        masks = both.apply(np.stack(pair))
        for i in range(2):
            assert np.array_equal(masks[i], single[i].apply(pair[i]))


def test_doors_say_what_to_do():
    subtractor = BackgroundSubtractor()
    with pytest.raises(ValueError, match="no frame has been applied"):
        _ = subtractor.scores
    subtractor.apply(np.zeros((20, 30, 3), np.uint8))
    with pytest.raises(ValueError, match=r"\(20, 31, 3\).*\(20, 30, 3\).*resize"):
        subtractor.apply(np.zeros((20, 31, 3), np.uint8))
    with pytest.raises(ValueError, match="fgmask"):
        subtractor.apply(np.zeros((20, 30, 3), np.uint8), np.zeros((20, 30), bool))
    with pytest.raises(ValueError, match="uint8 or float32"):
        BackgroundSubtractor().apply(np.zeros((20, 30)))
    with pytest.raises(ValueError, match="NaN"):
        BackgroundSubtractor().apply(np.full((20, 30), np.nan, np.float32))
    for bad in ({"rule": "mog"}, {"budget": 0}, {"rule": "silk", "budget": 4}, {"sigma": -1}, {"lam": 0}, {"backend": "tpu"}):
        with pytest.raises(ValueError, match=next(k for k in reversed(bad))):
            BackgroundSubtractor(**bad)


def test_one_learning_rate_starts_anew_and_a_positive_one_forgets():
    subtractor, dark, light = BackgroundSubtractor("silk"), np.full((8, 8), 20, np.uint8), np.full((8, 8), 220, np.uint8)
    for _ in range(20):
        subtractor.apply(dark)
    assert not subtractor.apply(light, learningRate=1).any()
    assert subtractor.getBackgroundImage().mean() == 220
    keep, lose = BackgroundSubtractor("silk"), BackgroundSubtractor("silk")
    for s, rate in ((keep, -1), (lose, 0.2)):
        for _ in range(20):
            s.apply(dark)
        for _ in range(20):
            s.apply(light, learningRate=rate)
        s.apply(dark, learningRate=0)
    assert keep.scores.mean() > 0.9
    assert lose.scores.mean() < 0.1


@pytest.mark.parametrize("rule", ["fold", "fold1", "silk"])
def test_no_allocation_per_frame(rule):
    subtractor, out = BackgroundSubtractor(rule, threads=1), np.zeros((240, 320), np.uint8)
    frames = np.random.default_rng(0).integers(0, 256, (6, 240, 320, 3), dtype=np.uint8)
    for frame in frames:
        subtractor.apply(frame, out)
    tracemalloc.start()
    try:
        for _ in range(3):
            for frame in frames:
                subtractor.apply(frame, out)
        assert tracemalloc.get_traced_memory()[1] < 20_000  # a mask alone has 76,800 bytes
    finally:
        tracemalloc.stop()


def test_views_and_odd_sizes_are_welcome():
    frames = [frame for frame, _ in film("static", 30, 10)]
    whole, part = BackgroundSubtractor("silk"), BackgroundSubtractor("silk")
    for frame in frames:
        full = whole.apply(frame)
        view = part.apply(frame[5:-7, 3:50])
    assert np.array_equal(full[5:-7, 3:50], view)
    assert full.shape == (HEIGHT, WIDTH)


def test_grey_is_seen_as_well_as_the_same_grey_in_three_channels():
    grey, three = BackgroundSubtractor(threads=1), BackgroundSubtractor(threads=1)

    def look(image, rate):
        grey.apply(image, learningRate=rate)
        three.apply(np.repeat(image[..., None], 3, 2), learningRate=rate)

    for frame, _ in film("static", 40, 40):
        look(frame[..., 1], -1)
    look(frame[..., 1] + np.uint8(15), 0)
    assert np.abs(grey.scores - three.scores).mean() < 0.02
    assert three.scores.mean() < 0.7


def test_frames_of_0_to_1_are_told():
    image = np.random.default_rng(0).random((HEIGHT, WIDTH, 3)).astype(np.float32)
    with pytest.warns(UserWarning, match="multiply it by 255"):
        BackgroundSubtractor(threads=1).apply(image)
    BackgroundSubtractor(threads=1).apply(255 * image)


@pytest.mark.parametrize("flash", [0, 255], ids=["black", "white"])
def test_one_spoiled_frame_does_not_make_it_learn_objects(flash):
    subtractor, found, there = BackgroundSubtractor(threads=1), 0, 0
    for t, (frame, _) in enumerate(film("static", 160, 160)):
        mask = np.zeros((HEIGHT, WIDTH), bool)
        if t >= 110:
            x = 5 + (t - 110) // 3
            mask[15:35, x : x + 20] = True
            frame[mask] = (235, 20, 30)
        out = subtractor.apply(np.full_like(frame, flash) if t == 120 else frame)
        if t > 120:
            found, there = found + (out[mask] > 0).sum(), there + mask.sum()
    assert found > 0.8 * there


@pytest.mark.parametrize("rule", ["silk", "norma"])
def test_the_scale_is_folded_back_before_it_underflows(rule):
    """After twenty frames of forgetting half the common factor is below 1e-6."""
    frames = np.random.default_rng(8).integers(90, 110, (70, 1, 1, 3), dtype=np.uint8)
    subtractor, scores = BackgroundSubtractor(rule, lam=0.5, C=0.9, threads=1), []
    for frame in frames:
        subtractor.apply(frame)
        scores.append(subtractor.scores.item())
    np.testing.assert_allclose(scores, plain_pixel(frames[:, 0, 0], rule, lam=0.5, C=0.9), atol=1e-3)


@pytest.mark.parametrize("rule", ["fold", "fold1", "silk"])
def test_copies_and_pickles_go_on_alone(rule):
    frames = [frame for frame, _ in film("static", 12, 6)]
    original = BackgroundSubtractor(rule, threads=2)
    for frame in frames[:8]:
        original.apply(frame)
    before = original._to_file()["arrays"]
    before = {name: array.copy() for name, array in before.items()}
    twins = [copy.copy(original), copy.deepcopy(original), pickle.loads(pickle.dumps(original))]
    for twin in twins:
        assert twin.threads == 2
        for frame in frames[8:]:
            last = twin.apply(frame)
    for name, array in original._to_file()["arrays"].items():
        np.testing.assert_array_equal(array, before[name])
    for frame in frames[8:]:
        mask = original.apply(frame)
    np.testing.assert_array_equal(mask, last)


@pytest.mark.parametrize("rule", ["fold", "fold1", "silk"])
def test_what_is_refused_changes_nothing(rule):
    frame = backdrop().astype(np.float32)
    broken = frame.copy()
    broken[3, 4, 1] = np.nan
    subtractor = BackgroundSubtractor(rule, threads=1)
    with pytest.raises(ValueError, match="NaN"):
        subtractor.apply(broken)
    with pytest.raises(ValueError, match="fgmask"):
        subtractor.apply(frame, np.zeros((2, 2), np.uint8))
    with pytest.raises(ValueError, match="no frame"):
        _ = subtractor.scores
    with pytest.raises(ValueError, match="no frame"):
        subtractor.getBackgroundImage()
    small = np.full((5, 7), 90, np.uint8)
    subtractor.apply(small)  # neither size nor type was settled
    kept = {name: array.copy() for name, array in subtractor._to_file()["arrays"].items()}
    for image, mask in ((small, np.zeros((2, 2), np.uint8)), (np.full((5, 7), np.inf, np.float32), None)):
        with pytest.raises(ValueError, match=r"fgmask|NaN"):
            subtractor.apply(image, mask, 1)
    for name, array in subtractor._to_file()["arrays"].items():
        np.testing.assert_array_equal(array, kept[name])


def test_bad_arguments_are_named():
    subtractor, frame = BackgroundSubtractor(threads=1), np.full((5, 7), 90, np.uint8)
    locked = np.zeros((5, 7), np.uint8)
    locked.flags.writeable = False
    for image, mask, rate, said in (
        (None, None, -1, "the frame is a NoneType: the source had no frame"),
        ([[1, 2]], None, -1, "the frame is a list: give a NumPy array"),
        (frame, "x", -1, "fgmask is a str"),
        (frame, locked, -1, "fgmask is read-only"),
        (frame, None, None, "learningRate=None: give a number up to 1"),
        (frame, None, "a", "learningRate='a': give a number up to 1"),
        (frame, None, float("nan"), "learningRate=nan: give a number up to 1"),
        (frame, None, 1.5, "learningRate=1.5: give a number up to 1"),
    ):
        with pytest.raises(ValueError, match=said):
            subtractor.apply(image, mask, rate)


@pytest.mark.parametrize("bad", [float("nan"), -1, float("inf"), "a", True, [1]], ids=repr)
@pytest.mark.parametrize(
    "name", ["budget", "sigma", "C", "lam", "threshold", "rho", "fold", "move", "slow", "unrest", "nu", "cameras", "threads"]
)
def test_every_parameter_is_checked_by_name(name, bad):
    with pytest.raises(ValueError, match=f"^{name}="):
        BackgroundSubtractor(**{name: bad})


@pytest.mark.parametrize("name", ["median", "light", "texture", "shadows", "votes", "detectShadows"])
def test_yes_or_no(name):
    with pytest.raises(ValueError, match=f"{name}='a': give True or False"):
        BackgroundSubtractor(**{name: "a"})


def test_a_mask_in_the_place_of_the_frame():
    separate, within = BackgroundSubtractor(threads=1), BackgroundSubtractor(threads=1)
    for frame, _ in film("static", 12, 4):
        grey = frame[..., 1].copy()
        expected = separate.apply(grey)
        np.testing.assert_array_equal(within.apply(grey, grey), expected)
    for name, array in separate._to_file()["arrays"].items():
        np.testing.assert_array_equal(within._to_file()["arrays"][name], array)


def test_clear_and_scores_of_a_loaded_model():
    subtractor = BackgroundSubtractor(threads=1)
    for frame, _ in film("static", 3):
        subtractor.apply(frame)
    loaded = BackgroundSubtractor._from_file(subtractor._to_file())
    with pytest.raises(ValueError, match="none since the model was loaded"):
        _ = loaded.scores
    np.testing.assert_array_equal(loaded.getBackgroundImage(), subtractor.getBackgroundImage())
    subtractor.clear()
    assert not subtractor.apply(np.zeros((4, 4), np.uint8)).any()


class Named(BackgroundSubtractor):
    def __init__(self, name):
        super().__init__(fold=None, nu=None)
        self.name = name


def test_a_subclass_can_be_copied():
    twin = copy.deepcopy(Named("door"))
    assert isinstance(twin, Named)
    assert twin.settings == Named("door").settings


def test_any_negative_rate_is_automatic_and_every_camera_has_its_background():
    clips = [[frame for frame, _ in film("static", 8, 4, seed=seed)] for seed in (1, 2)]
    clips[1] = [255 - frame for frame in clips[1]]
    both, usual = BackgroundSubtractor(cameras=2, threads=1), [BackgroundSubtractor(threads=1) for _ in clips]
    for frames in zip(*clips, strict=True):
        masks = both.apply(np.stack(frames), learningRate=-5)
        for mask, frame, alone in zip(masks, frames, usual, strict=True):
            np.testing.assert_array_equal(mask, alone.apply(frame))
    for image, alone in zip(both.getBackgroundImage(), usual, strict=True):
        np.testing.assert_array_equal(image, alone.getBackgroundImage())

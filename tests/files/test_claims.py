"""Files: a few bytes cannot claim much memory."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import onkel
from onkel import persist
from tests.files.forge import sealed, taken_apart
from tests.files.models import RBF, data

LIMITED = """
import resource, sys
from onkel import persist
persist.load(sys.argv[1])                       # what loading needs anyway
with open("/proc/self/statm") as sizes:
    now = int(sizes.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + 100 * 2**20, resource.RLIM_INFINITY))
for path in sys.argv[2:]:
    try:
        persist.load(path)
        print("loaded", path)
    except persist.BadFile as error:
        print("refused", error)
"""


def models_that_claim(kind):
    """A small model of this kind, and what in its header might claim to be large."""
    X, y = data(40)
    labels = onkel.silk(RBF, onkel.Structured(onkel.Labels.flat(3)), budget=8)
    if kind == "learner":
        return (labels, labels.learn(labels.init(), X, np.arange(40) % 3)[0]), ["learner"]
    if kind == "fresh learner":
        return (labels, labels.init()), ["learner", "state"]
    if kind == "video":
        from onkel.video import BackgroundSubtractor

        camera = BackgroundSubtractor(threads=1)
        camera.apply(np.zeros((12, 20, 3), np.uint8))
        return camera, ["header"]
    return onkel.KernelClassifier(budget=8).fit(X, y), ["header"]


def numbers(tree, path=()):
    """The ways to all numbers of a tree."""
    for key, part in tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ():
        yield from numbers(part, (*path, key))
    if type(tree) in (int, float):
        yield path


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux to limit memory")
@pytest.mark.parametrize("kind", ["learner", "fresh learner", "estimator", "video"])
def test_a_tiny_file_cannot_claim_much_memory(kind, tmp_path):
    model, parts = models_that_claim(kind)
    blob = persist.dumps(model)
    members = taken_apart(blob)
    head = json.loads(members["onkel.json"])
    paths = [tmp_path / "honest.onkel"]
    paths[0].write_bytes(blob)
    for way in (way for part in parts for way in numbers(head["model"][part], ("model", part))):
        for value in (3000, 10**6, 10**10, 2**62):
            edit = json.loads(json.dumps(head))
            inner = edit
            for key in way[:-1]:
                inner = inner[key]
            inner[way[-1]] = value
            paths.append(tmp_path / f"{len(paths)}.onkel")
            paths[-1].write_bytes(sealed(members, edit))
    if kind == "estimator":
        edit = json.loads(json.dumps(head))
        edit["model"]["header"]["model"]["classes"] = list(range(5000))
        paths.append(tmp_path / "classes.onkel")
        paths[-1].write_bytes(sealed(members, edit))
    if kind == "video":
        for claim in ({"shape": [100_000, 100_000, 3]}, {"dtype": "<U1000000"}, {"shape": [-1, -(10**6), 3]}):
            edit = json.loads(json.dumps(head))
            edit["model"]["header"] |= claim
            paths.append(tmp_path / f"{len(paths)}.onkel")
            paths[-1].write_bytes(sealed(members, edit))
    many = {**head, "notes": {"sets": [{"is": "Labels", "flat": 900 + i} for i in range(50)]}}
    paths.append(tmp_path / "many.onkel")
    paths[-1].write_bytes(sealed(members, many))
    done = subprocess.run([sys.executable, "-c", LIMITED, *paths], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    told = done.stdout.splitlines()
    assert len(told) == len(paths) - 1
    assert not [line for line in told if "memory" in line]  # refused for what it is, not for want of memory
    assert "flat label sets" in told[-1]

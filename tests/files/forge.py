"""Files taken apart, changed and sealed again, as by someone who knows about the seals."""

import hashlib
import io
import json
import zipfile

import numpy as np


def taken_apart(blob):
    with zipfile.ZipFile(io.BytesIO(blob)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def put_together(members, compression=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def sealed(members, head):
    """An edit by someone who knows about the seal."""
    text = json.dumps(head).encode()
    return put_together({**members, "onkel.json": text, "onkel.sha256": hashlib.sha256(text).hexdigest().encode()})


def npy(array):
    out = io.BytesIO()
    np.save(out, array, allow_pickle=True)
    return out.getvalue()


def with_arrays(members, head, arrays):
    """The members with these arrays in place of theirs, listed in the header as if they had always been there."""
    members = dict(members)
    for name, array in arrays.items():
        digest = hashlib.sha256(array.tobytes()).hexdigest()
        head["arrays"][name] = {"dtype": array.dtype.str, "shape": list(array.shape), "sha256": digest}
        members[f"{name}.npy"] = npy(array)
    return sealed(members, head)


def with_array(blob, name, array):
    members = taken_apart(blob)
    return with_arrays(members, json.loads(members["onkel.json"]), {name: array})


def edited(blob, **changes):
    members = taken_apart(blob)
    return sealed(members, {**json.loads(members["onkel.json"]), **changes})

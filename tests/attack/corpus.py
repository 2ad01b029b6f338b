"""Bad tables: what broke programs that read tables, by a name and the bytes."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator

ESCAPES = ("\x1b[2J", "\x1b]0;owned\x07", "\x9b31m", "\r", "\u202e", "\x00", "\x7f", "\u2028")
GOOD = "x,z,y\n" + "".join(f"{i % 7},{-i % 5},{'ab'[i % 2]}\n" for i in range(40))


def tables() -> Iterator[tuple[str, bytes]]:
    """(file name, content); each is read with --target y."""
    good = GOOD.encode()
    rows = [dict(x=i % 7, z=-i % 5, y="ab"[i % 2]) for i in range(40)]
    lines = [json.dumps(row) for row in rows]
    yield "empty.csv", b""
    yield "newlines.csv", b"\n" * 10_000
    yield "nul.csv", good.replace(b"3", b"\x00")
    yield "bom-in-the-middle.csv", good.replace(b"2,", b"\xef\xbb\xbf2,")
    yield "utf16.csv", GOOD.encode("utf-16")
    yield "carriage.csv", good.replace(b"\n", b"\r")
    yield "mixed-ends.csv", good.replace(b"a\n", b"a\r\n")
    yield "quotes.csv", good + b'"' * 999 + b"\n"
    yield "one-quote.csv", good + b'1,"2,a\n' + good * 50
    yield "many-fields.csv", good + b"," * 200_000 + b"\n"
    yield "long-field.csv", good + b"1,2," + b"a" * 300_000 + b"\n"
    yield "long-number.csv", good + b"1" * 300_000 + b",2,a\n"
    yield "latin.csv", good + "1,2,größe\n".encode("latin-1")
    yield "wide.csv", ",".join([*(f"c{i}" for i in range(20_000)), "y"]).encode() + b"\n1,2\n"
    yield "twice.csv", b"x,x,y\n1,2,a\n"
    yield "no-names.csv", b",,y\n1,2,a\n"
    yield "nan.csv", good + b"nan,inf,a\n-inf,1e999,b\n0x10,1_000,a\n"
    yield "classes.csv", b"x,z,y\n" + b"".join(b"%d,1,n%d\n" % (i, i) for i in range(2000))
    yield "cut.csv.gz", gzip.compress(good)[:-9]
    yield "no.csv.gz", b"\x1f\x8b" + bytes(random.Random(0).randbytes(500))
    yield "no.csv.xz", b"\xfd7zXZ\x00" + bytes(500)
    yield "no.csv.bz2", b"BZh9" + bytes(500)
    yield "no.csv.zst", b"\x28\xb5\x2f\xfd" + bytes(500)
    yield "bomb.csv.gz", gzip.compress(good) + gzip.compress(b"1" * 2**20, 9) * 64
    fat = json.dumps({"x": 1, "z": 2, "y": "a", **{f"k{i}": "n" * 1000 for i in range(900)}}).encode() + b"\n"
    yield "fat.ndjson.gz", gzip.compress(fat, 9) * 500  # members one after the other are one file
    yield (
        "fat.csv.gz",
        gzip.compress(b",".join([b"x,z,y", *(b"k%d" % i for i in range(900))]) + (b"\n1,2,a" + b",7" * 900) * 1000, 9),
    )
    yield "rows.csv.gz", gzip.compress(good + b"oops,1,a\n" * 200_000, 9)
    yield "deep.ndjson", "\n".join([*lines, '{"x": ' + "[" * 100_000 + "]" * 100_000 + ', "y": "a"}']).encode()
    yield "deep-first.ndjson", b'{"a":' * 100_000
    yield (
        "keys.ndjson",
        ('{"x":1,"z":2,"y":"a",' + ",".join(f'"k{i}":0' for i in range(50_000)) + "}\n" + "\n".join(lines)).encode(),
    )
    yield "same-key.ndjson", b'{"x":1,"x":2,"z":1,"y":"a"}\n' * 10
    yield (
        "numbers.ndjson",
        "\n".join([*lines, *(f'{{"x":{n},"z":1,"y":{n}}}' for n in ("1" + "0" * 308, "9" * 4400, "-0", "1e-999"))]).encode(),
    )
    yield (
        "types.ndjson",
        "\n".join([*lines, '{"x":{},"z":[],"y":null}', '{"x":true,"z":"1","y":{"a":1}}', "[]", "1", '"', "null"]).encode(),
    )
    yield "surrogates.ndjson", "\n".join([*lines, '{"x":1,"z":1,"y":"\\ud800"}', '{"x":"\\udfff","z":1,"y":"a"}']).encode()
    yield "array.json", f"[{','.join(lines)}, {{".encode()
    yield "nested-array.json", b"[" * 50_000
    yield "array-bomb.json", b'[{"x":1,"z":1,"y":"a"}' + b',{"x":1,"z":1,"y":"' + b"a" * 2**22 + b'"}]'
    yield "no.parquet", b"PAR1" + bytes(1000) + b"PAR1"
    yield "no.feather", b"ARROW1" + bytes(1000)
    for k, escape in enumerate(ESCAPES):
        yield f"escape-name-{k}.csv", GOOD.replace("z", f'"z{escape}"').replace("4,", "oops,").encode()
        yield f"escape-class-{k}.csv", GOOD.replace("b\n", f'"b{escape}"\n').encode()
        yield f"escape-value-{k}.ndjson", "\n".join([*lines, json.dumps({"x": f"1{escape}", "z": 1, "y": "a"})]).encode()
    yield from mutants(good, ".csv", 40)
    yield from mutants("\n".join(lines).encode(), ".ndjson", 40)
    yield from mutants(gzip.compress(good), ".csv.gz", 20)


def mutants(content: bytes, ending: str, count: int) -> Iterator[tuple[str, bytes]]:
    """Bytes turned, cut, doubled."""
    chance = random.Random(1)
    for k in range(count):
        bad = bytearray(content)
        for _ in range(chance.randint(1, 6)):
            at = chance.randrange(len(bad))
            match chance.randrange(4):
                case 0:
                    bad[at] = chance.randrange(256)
                case 1:
                    del bad[at : at + chance.randint(1, 40)]
                case 2:
                    bad[at:at] = bad[at : at + 200] * chance.randint(1, 20)
                case 3:
                    bad[at:at] = chance.choice([b'"', b",", b"\n", b"\x1b[31m", b"\xff", b"{", b"[", b"1e400", b"\x00"])
            bad = bad or bytearray(b"\n")
        yield f"mutant-{k}{ending}", bytes(bad)

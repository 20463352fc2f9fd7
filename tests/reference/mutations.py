"""Files made worse at random: text and bytes, and containers whose checksum is put right again so that their parser is reached."""

from __future__ import annotations

import copy
import json
import random
import struct
from typing import Any

NUMBERS = (
    b"-1",
    b"0",
    b"1",
    b"2",
    b"3",
    b"7",
    b"1e9",
    b"1000000000",
    b"99999999999999999999",
    b"0,5",
    b"nan",
    b"inf",
    b"-inf",
    b"1e308",
)
SIGNS = (b"?", b"{", b"}", b"[", b"'", b"@data", b":")
ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1,
    2,
    7,
    10**6,
    10**12,
    2**63,
    10**400,
    -(2**31),
    0.5,
    1e308,
    "",
    "x",
    "|O",
    "<f8",
    "<U9999999",
    [],
    {},
    [[]],
    {"float": "nan"},
    {"array": "weights"},
    {"array": "nothing"},
    {"record": "TRWS", "fields": {}},
    {"record": "os.system", "fields": {"command": "true"}},
    {"tuple": [1, 2]},
    "../../x",
)


def mutate(rng: random.Random, data: bytes, words: tuple[bytes, ...] = NUMBERS) -> bytes:
    """One to three changes: a bit, a cut, an insertion, another word, a repetition."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        kind, at = rng.randrange(5), rng.randrange(len(out) + 1)
        if kind == 0 and out:
            out[at % len(out)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del out[at : at + rng.choice((1, 3, len(out)))]
        elif kind == 2:
            out[at:at] = rng.choice(
                (rng.randbytes(rng.randint(1, 4)), rng.choice(words), b"\n", b"[", b"\x00", b"\xc2\xb2", b"\xe2\x80\xa8")
            )
        elif kind == 3:
            parts = bytes(out).split(b" ")
            parts[rng.randrange(len(parts))] = rng.choice(words)
            out = bytearray(b" ".join(parts))
        else:
            other = rng.randrange(len(out) + 1)
            out[at:at] = out[min(at, other) : min(at, other) + 20]
    return bytes(out)


def mutate_container(rng: random.Random, data: bytes, file: Any) -> bytes:
    """A changed container (`maxsum.core.files.container.Container`); in five of seven cases with a right checksum."""
    kind = rng.randrange(7)
    if kind < 2:
        return mutate(rng, data) if kind else _flip(rng, data)
    body = data[len(file.seal(b"")) :]
    (length,) = struct.unpack_from("<Q", body)
    header, rest = body[8 : 8 + length], body[8 + length :]
    if kind == 2:
        fake = rng.choice((0, 1, length - 1, length + 1, len(body), 2**31, 2**62, 2**64 - 1, rng.randrange(2 * len(body) + 1)))
        return bytes(file.seal(struct.pack("<Q", fake) + header + rest))
    if kind == 3:
        changed = mutate(rng, header)
        return bytes(file.seal(struct.pack("<Q", len(changed)) + changed + rest))
    if kind == 4:
        return bytes(file.seal(struct.pack("<Q", length) + header + _numbers(rng, rest)))
    changed = json.dumps(_edit(rng, json.loads(header), listed=kind == 5)).encode()
    return bytes(file.seal(struct.pack("<Q", len(changed)) + changed + rest))


def _flip(rng: random.Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(rng.randint(1, 8)):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def _numbers(rng: random.Random, rest: bytes) -> bytes:
    """Other numbers in arrays: infinite, huge, negative, or any bytes."""
    out = bytearray(rest)
    for _ in range(rng.randint(1, 4)):
        value = rng.choice(
            (
                struct.pack("<d", float("nan")),
                struct.pack("<d", float("inf")),
                struct.pack("<d", 1e308),
                struct.pack("<q", -1),
                struct.pack("<q", 2**62),
                rng.randbytes(8),
            )
        )
        at = 8 * rng.randrange(len(out) // 8) if len(out) >= 8 else 0
        out[at : at + 8] = value
    return bytes(out[: len(rest)])


def _edit(rng: random.Random, header: Any, listed: bool) -> Any:
    """The header with a few entries replaced, removed, repeated or exchanged; ``listed``: those of the list of arrays."""
    out = copy.deepcopy(header)
    for _ in range(rng.randint(1, 3)):
        places = list(_places(out["arrays"] if listed and out.get("arrays") else out))
        if not places:
            return out
        holder, key = rng.choice(places)
        kind = rng.randrange(6)
        if kind == 0 and isinstance(holder, dict):
            del holder[key]
        elif kind == 0:
            holder.insert(key, copy.deepcopy(holder[key]))
        elif kind == 1:
            other, place = rng.choice(places)
            holder[key] = copy.deepcopy(other[place])
        elif kind == 2 and isinstance(holder[key], int) and not isinstance(holder[key], bool):
            holder[key] += rng.choice((-1, 1, 10**9))
        else:
            holder[key] = copy.deepcopy(rng.choice(ODD))
    return out


def _places(value: Any) -> Any:
    """Every holder and key below a value of JSON."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield value, key
        yield from _places(inner)

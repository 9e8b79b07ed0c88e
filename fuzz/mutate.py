"""Broken and hostile inputs from sound ones: bytes, JSON values and text, by a seeded generator."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

# What parsers trip over, found in one place or another.
NUMBERS = (
    0,
    -1,
    1,
    2**31,
    -(2**31),
    2**53 + 1,
    2**63 - 1,
    2**63,
    2**64,
    -(2**63) - 1,
    10**25,
    0.5,
    -0.0,
    1e308,
    1e-320,
)
TEXTS = (
    "",
    " ",
    "inf",
    "NaN",
    "-inf",
    "1e999",
    "\u0000",
    "\ud800",
    "a" * 300,
    "__metadata__",
    "'; --",
    "../../x",
    "🙂",
    "1_0",
)


def damaged(content: bytes, others: Sequence[bytes], draw: random.Random) -> bytes:
    """One to four random damages: flips, cuts, repeats, inserts, and pieces of other inputs."""
    data = bytearray(content)
    for _ in range(draw.randint(1, 4)):
        place = draw.randint(0, len(data))
        length = min(draw.choice((1, 1, 2, 4, 8, 64, 512)), max(len(data) - place, 0))
        how = draw.randint(0, 7)
        if how == 0 and data:
            data[min(place, len(data) - 1)] ^= 1 << draw.randint(0, 7)
        elif how == 1:
            del data[place : place + length]
        elif how == 2:
            data[place:place] = draw.randbytes(length)
        elif how == 3:
            data[place : place + length] = draw.randbytes(length)
        elif how == 4:
            data[place:place] = data[place : place + length] * draw.randint(1, 8)
        elif how == 5:
            del data[place:]
        elif how == 6:
            other = draw.choice(others)
            start = draw.randint(0, len(other))
            data[place : place + length] = other[start : start + draw.randint(0, 256)]
        else:
            data[place : place + length] = bytes([draw.choice(b'\x00\xff",;\t\n\r{}[]:0-eE.#|')]) * max(length, 1)
    return bytes(data)


def hostile_value(draw: random.Random, depth: int = 2) -> Any:
    """A JSON value that a schema does not expect."""
    kind = draw.randint(0, 9)
    if kind <= 2:
        return draw.choice(NUMBERS)
    if kind <= 4:
        return draw.choice(TEXTS)
    if kind == 5:
        return draw.choice((None, True, False))
    if kind == 6:
        return float(draw.choice(("nan", "inf", "-inf")))
    if depth == 0:
        return []
    if kind == 7:
        return [hostile_value(draw, depth - 1) for _ in range(draw.randint(0, 3))]
    if kind == 8:
        return {draw.choice(TEXTS): hostile_value(draw, depth - 1) for _ in range(draw.randint(0, 3))}
    return draw.choice((_nested(draw.choice((50, 2000))), [0] * draw.choice((1, 500))))


def _nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(min(depth, 400)):
        value = [value]
    return value


def hostile_json(value: Any, draw: random.Random) -> Any:
    """The same JSON value with one to three places replaced, dropped or doubled."""
    value = json.loads(json.dumps(value))
    for _ in range(draw.randint(1, 3)):
        value = _replaced(value, draw)
    return value


def _replaced(value: Any, draw: random.Random) -> Any:
    if isinstance(value, dict) and value and draw.random() < 0.85:
        key = draw.choice(list(value))
        how = draw.random()
        if how < 0.1:
            del value[key]
        elif how < 0.2:
            value[draw.choice(TEXTS)] = hostile_value(draw)
        else:
            value[key] = _replaced(value[key], draw)
        return value
    if isinstance(value, list) and value and draw.random() < 0.85:
        place = draw.randrange(len(value))
        how = draw.random()
        if how < 0.1:
            del value[place]
        elif how < 0.2:
            value.insert(place, value[place])
        else:
            value[place] = _replaced(value[place], draw)
        return value
    return hostile_value(draw)


def dumped(value: Any, draw: random.Random) -> bytes:
    """JSON text, now and then with what Python's own writer would never write."""
    text = json.dumps(value, ensure_ascii=draw.random() < 0.5)
    if draw.random() < 0.1:
        deep = draw.choice((1000, 100_000))
        text = text.replace("0", draw.choice(("9" * 5000, "1e99999", "-0", "[" * deep, "NaN")), 1)
    return text.encode("utf-8", "surrogatepass")


def cells(rows: Sequence[Sequence[Any]], separator: str, draw: random.Random) -> bytes:
    """A text table with hostile cells, broken rows and odd line ends."""
    end = draw.choice(("\n", "\n", "\r\n", "\r"))
    made = []
    for row in rows:
        line = [str(cell) for cell in row]
        if draw.random() < 0.15:
            place = draw.randrange(len(line))
            line[place] = str(draw.choice((*NUMBERS, *TEXTS, '"', '"a', "1,2", "5.0.0", "٣", "0x1f")))
        if draw.random() < 0.05:
            line = line[: draw.randint(0, len(line))] + [""] * draw.randint(0, 3)
        made.append(separator.join(line))
    return end.join(made).encode("utf-8", "surrogatepass")

"""Seconds and peak memory of loading MovieLens 1M, beside a plain NumPy and (if installed) a pandas reader.

    python benchmarks/read_speed.py PATH/ml-1m.zip

Each reader runs in a process of its own: the first run, the best of three more, and the peak of the process.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import resource
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

MEMBER = "ml-1m/ratings.dat"


def with_hushrec(path: str) -> int:
    """The product's own reader."""
    from hushrec.data.catalogs import load

    return load("ml-1m", path).n_ratings


def with_numpy(path: str) -> int:
    """The shortest reader without a library for tables: split, convert, sort."""
    import numpy as np

    content = zipfile.ZipFile(path).read(MEMBER).replace(b"::", b" ")
    table = np.array(content.split(), dtype=np.int64).reshape(-1, 4)
    _, user_codes = np.unique(table[:, 0], return_inverse=True)
    _, item_codes = np.unique(table[:, 1], return_inverse=True)
    order = np.lexsort((item_codes, user_codes))
    return len(table[order, 2].astype(np.float32))


def with_pandas(path: str) -> int:
    """The usual notebook line, and the same table at the end."""
    import pandas as pd
    from scipy.sparse import csr_array

    with zipfile.ZipFile(path) as archive, archive.open(MEMBER) as stream:
        frame = pd.read_csv(stream, sep="::", engine="python", header=None, usecols=[0, 1, 2])
    users, items = frame[0].astype("category").cat.codes, frame[1].astype("category").cat.codes
    return int(csr_array((frame[2].to_numpy(), (users.to_numpy(), items.to_numpy()))).nnz)


READERS: dict[str, Callable[[str], int]] = {
    "hushrec": with_hushrec,
    "numpy": with_numpy,
    "pandas": with_pandas,
}


def measure(name: str, path: str) -> dict[str, object]:
    """First and best time of one reader, and the peak of this process."""
    seconds = []
    ratings = 0
    for _ in range(4):
        start = time.perf_counter()
        ratings = READERS[name](path)
        seconds.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    first, best = round(seconds[0], 3), round(min(seconds[1:]), 3)
    return {"reader": name, "ratings": ratings, "first_s": first, "warm_s": best, "peak_mb": round(peak)}


def main() -> int:
    """Run every reader that can be imported, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, help="ml-1m.zip")
    parser.add_argument("--reader", choices=tuple(READERS), help="only this one, in this process")
    arguments = parser.parse_args()
    if not arguments.path.is_file():
        parser.error(f"there is no file {arguments.path}")
    if arguments.reader:
        print(json.dumps(measure(arguments.reader, str(arguments.path))))
        return 0
    for name in READERS:
        if name == "pandas" and importlib.util.find_spec("pandas") is None:
            print(json.dumps({"reader": name, "skipped": "not installed"}))
            continue
        subprocess.run([sys.executable, __file__, str(arguments.path), "--reader", name], check=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

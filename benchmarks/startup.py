"""How long `hushrec --help` and `import hushrec` take once the disk cache is warm.

python benchmarks/startup.py [RUNS]
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

TARGETS = {"hushrec --help": 0.4, "import hushrec": 0.5}
COMMANDS = {
    "hushrec --help": [sys.executable, "-m", "hushrec", "--help"],
    "import hushrec": [sys.executable, "-c", "import hushrec"],
}


def seconds(command: list[str]) -> float:
    """Wall-clock seconds of one run."""
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    for name, command in COMMANDS.items():
        seconds(command)  # the first one warms the cache
        times = [seconds(command) for _ in range(runs)]
        print(
            f"{name:16s} median {statistics.median(times):.3f} s, best {min(times):.3f} s, worst {max(times):.3f} s "
            f"of {runs} (target {TARGETS[name]} s)"
        )


if __name__ == "__main__":
    main()

"""Trial reading: another process decodes a Parquet file first, since a damaged one can end the process that reads it.

The library that decodes (Polars) asks for as much memory as a damaged header says and aborts where there is not as
much; an abort cannot be caught. So a helper decodes the whole file and throws the result away. If it dies, the file
is refused here, with one sentence.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO

HELPER = """
import io, json, os, sys
sys.path[:] = json.loads(sys.argv[1])
import polars
try:
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would hold ratings
except (ImportError, ValueError, OSError):
    pass
print("ready", flush=True)
for line in sys.stdin.buffer:
    path, size = json.loads(line)
    try:
        source = path if path is not None else io.BytesIO(sys.stdin.buffer.read(size))
        polars.scan_parquet(source, glob=False).sink_ipc(os.devnull)
        print("sound", flush=True)
    except BaseException:
        print("damaged", flush=True)
"""


class Helper:
    """A process that tries files, one after the other; started when it is needed, and again where it died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def sound(self, source: Path | bytes) -> bool:
        """Whether the helper decodes all of it, and lives; taken for granted where no helper can be started."""
        process = self._process or self._start()
        if process is None:
            return True
        name, content = (None, source) if isinstance(source, bytes) else (os.path.abspath(source), b"")
        with suppress(OSError):
            _pipe(process.stdin).write(json.dumps([name, len(content)]).encode() + b"\n" + content)
            _pipe(process.stdin).flush()
        answer = _answer(process)
        if answer not in ("sound", "damaged"):
            self.close()
        return answer == "sound"

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            for pipe in (self._process.stdin, self._process.stdout):
                with suppress(OSError):
                    _pipe(pipe).close()
            self._process.wait()
            self._process = None

    def __del__(self) -> None:
        self.close()

    def _start(self) -> subprocess.Popen[bytes] | None:
        command = [sys.executable, "-c", HELPER, json.dumps(sys.path)]
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        try:
            self._process = subprocess.Popen(command, **streams)  # type: ignore[call-overload]  # plain numbers
        except OSError:
            return None
        if _answer(self._process) != "ready":
            self.close()
        return self._process


def decodes(source: Path | bytes, helper: Helper | None = None) -> bool:
    """Whether a Parquet file, or its content, can be decoded: by a helper of the caller's, or by one for this file."""
    if helper is not None:
        return helper.sound(source)
    helper = Helper()
    try:
        return helper.sound(source)
    finally:
        helper.close()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise OSError("no pipe")
    return pipe


def _answer(process: subprocess.Popen[bytes]) -> str:
    return _pipe(process.stdout).readline().decode().strip()

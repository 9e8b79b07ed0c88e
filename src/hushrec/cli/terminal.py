"""How the command line talks: one sentence for an error, progress on a terminal only, tables and JSON."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

import typer
from typer.core import TyperGroup

from hushrec.cli.wording import in_options
from hushrec.errors import HushrecError, printable

UsageError, ClickException = typer.BadParameter.__mro__[1:3]  # wherever this Typer keeps them

BAD_INPUT, UNEXPECTED, INTERRUPTED = 2, 1, 130


class OneSentence(TyperGroup):
    """A command group whose every failure is one sentence on stderr and an exit code, never a traceback."""

    def main(  # type: ignore[override]  # the other arguments pass through
        self, args: Sequence[str] | None = None, *, standalone_mode: bool = True, **extra: Any
    ) -> Any:
        try:
            result = super().main(args=args, standalone_mode=False, **extra)
            code = result if isinstance(result, int) else 0
            if code == INTERRUPTED:  # in a command, or before one was found
                _say("Interrupted.")
        except Exception as problem:
            if os.environ.get("HUSHREC_DEBUG"):
                raise
            code = _complain(problem)
        if standalone_mode:
            sys.exit(code)
        return code

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None


def _complain(problem: Exception) -> int:
    """Say what is wrong in one sentence, and return the exit code."""
    if isinstance(problem, HushrecError):
        _say(in_options(str(problem)))
    elif isinstance(problem, ClickException):
        message = problem.format_message()  # type: ignore[attr-defined]
        context = getattr(problem, "ctx", None)
        where = f" ({context.command_path} --help shows an example)" if context is not None else ""
        _say(f"{message.rstrip('.')}{where}.")
    elif isinstance(problem, OSError):
        place = f"{problem.filename}: " if problem.filename else ""
        _say(f"{place}{problem.strerror or type(problem).__name__}.")
    elif isinstance(problem, MemoryError):
        _say("There was not enough memory.")
    else:
        # The message of a foreign exception may quote ratings: only its type is shown.
        _say(f"Something unexpected went wrong ({type(problem).__name__}); HUSHREC_DEBUG=1 shows where.")
        return UNEXPECTED
    return BAD_INPUT


def _say(sentence: str) -> None:
    typer.echo(printable(" ".join(sentence.split())), err=True)


def remark(sentence: str) -> None:
    """A remark on stderr, so that stdout holds nothing but the answer."""
    _say(sentence)


def example(*lines: str) -> str:
    """The end of a command's help."""
    return "\n\n".join(f"Example: {line}" for line in lines)


# --- progress: on a terminal, never when piped -----------------------------------------------------


@contextmanager
def busy(what: str) -> Iterator[None]:
    """A spinner with a few words while something runs."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with _own_stderr() as stream, Console(file=stream).status(what):
        yield


def _own_stderr() -> TextIO:
    """Standard error by another descriptor: the readers hold back what libraries write to the first one."""
    return os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding=sys.stderr.encoding, errors="replace")


@contextmanager
def counted(what: str) -> Iterator[Callable[..., None]]:
    """A progress bar: the function it gives is called with (done, all, ...); all may be None where unknown."""
    if not sys.stderr.isatty():
        yield lambda done, total, *_: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with _own_stderr() as stream, Progress(console=Console(file=stream), transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total, *_: progress.update(task, completed=done, total=total)


# --- answers ---------------------------------------------------------------------------------------


def print_json(answer: Any) -> None:
    """An answer as JSON; what is infinite as the text "inf"."""
    text = json.dumps(_plain(answer), indent=2, ensure_ascii=False, allow_nan=False)
    # JSON leaves some characters that steer a terminal as they are; all of them stand inside of texts.
    typer.echo("".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text))


def _plain(answer: Any) -> Any:
    if isinstance(answer, dict):
        return {str(key): _plain(value) for key, value in answer.items()}
    if isinstance(answer, (list, tuple)):
        return [_plain(value) for value in answer]
    if hasattr(answer, "item"):  # a NumPy number
        return _plain(answer.item())
    if isinstance(answer, float) and not math.isfinite(answer):
        return str(answer)
    return answer


def print_table(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    """A table, aligned; figures with four significant digits."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    names = list(columns)
    table = Table(box=box.SIMPLE_HEAD if any(names) else None, show_header=any(names), pad_edge=False)
    for name in names:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    # Piped, a table is as wide as it needs to be; nobody's terminal breaks its lines.
    Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 200).print(table)


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int):
        return f"{value:,}"
    return printable(str(value))

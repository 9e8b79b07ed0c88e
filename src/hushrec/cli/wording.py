"""The library's sentences speak of Python; here they name the command line's options in the same place."""

from __future__ import annotations

import re

PHRASES = {
    "pass has_header=False and columns by position": "say --no-header, and give columns by position, as in --user 0",
    "pass has_header=False": "say --no-header",
    "use hushrec.load for a known dataset": "name a known data set with --format",
    "hushrec.load": "--format NAME",
    "complete the list or choose unknown_items='drop'": "complete the list",
    "unknown='ignore' leaves them out": "--ignore-unknown leaves them out",
    "catalogue='rated'": "--items rated",
    "checksum='sha256:...' (or 'md5:...')": "--checksum sha256:... or md5:...",
    "already_randomized=True": "--already-randomized",
    "value_range=(lowest, highest)": "--value-range LOW HIGH",
    "give total=Budget(...) to start one": "hushrec ledger start begins one",
    "NonPrivate() in place of a budget": "--non-private",
    "NonPrivate()": "--non-private",
}
OPTIONS = ("duplicates", "mechanism", "relation", "unit")
"""Settings that are options of their own, of the same name; those of a solver are given with --set."""


def in_options(sentence: str) -> str:
    """A sentence with the command line's options for Python's arguments.

    >>> in_options("3 ratings repeat a pair: choose duplicates='first', 'last' or 'mean'.")
    '3 ratings repeat a pair: choose --duplicates first, last or mean.'
    >>> in_options('its budget must have unit="user".')
    'its budget must have --unit user.'
    """
    for words, option in PHRASES.items():
        sentence = sentence.replace(words, option)
    several = re.compile(r"\b([a-z_]+)=(['\"])([\w-]+)\2((?:,? (?:or )?\2[\w-]+\2)*)")
    return several.sub(lambda found: _option(found[1], found[3] + re.sub("['\"]", "", found[4])), sentence)


def _option(name: str, value: str) -> str:
    return f"--{name} {value}" if name in OPTIONS else f"--set {name}={value}"

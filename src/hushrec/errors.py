"""Every error that Hushrec raises on purpose; each message is one clear sentence without a rating or a user id."""


class HushrecError(Exception):
    """Base of all errors below: catch this to catch them all. The message is one line, whatever names it quotes."""

    def __init__(self, sentence: str = "") -> None:
        super().__init__(printable(sentence))


class DataError(HushrecError, ValueError):
    """The ratings, or a file that should hold them, are not usable as given."""


class ConfigError(HushrecError, ValueError):
    """A setting breaks a rule; the message names the setting, its value and the rule."""


class BudgetError(HushrecError, RuntimeError):
    """A request would spend more privacy than was planned; no data was read for it."""


class ReleaseError(HushrecError, ValueError):
    """A release file is damaged, hostile, of another version, or not a release file."""


class EngineError(HushrecError, RuntimeError):
    """The machinery that runs the user half failed; nothing was released."""


def printable(text: str) -> str:
    """The text with spaces for what could steer a terminal: it may come from a file of somebody else.

    >>> printable("one\\x1b[2J\\ntwo")
    'one [2J two'
    """
    return "".join(letter if letter.isprintable() else " " for letter in text)

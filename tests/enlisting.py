"""Questions of the tests' own, put on the closed list for the length of one test: there is no other way to ask them."""

from __future__ import annotations

from hushrec.privacy import closed_list


def enlist(monkeypatch, *kinds: type) -> None:
    """Let the curator answer questions of these types until the test ends."""
    monkeypatch.setattr(closed_list, "QUERIES", closed_list.QUERIES | set(kinds))

"""A bit source for tests that know what should be drawn."""

from __future__ import annotations

import numpy as np


class ScriptedBits:
    """Hands out the given words and fails when they run out."""

    def __init__(self, words):
        self.left = list(words)

    def words(self, count):
        words, self.left = self.left[:count], self.left[count:]
        return np.array(words, dtype=np.uint64)

"""The user half of implicit feedback by a posterior: her tastes from the items that she used, whatever the values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from hushrec.device.kernels import _solve_in_place


@njit(nogil=True, cache=True, error_model="numpy")
def tastes(indptr: Any, indices: Any, leanings: Any, gram: Any, centre: Any) -> Any:
    """Each user's posterior mean (m, r) in the model: she uses item j at rate k q_j (1 + leanings_j · u), u ~ N(0, I).

    k: how many items she used; q: the popularity of the items, which sums to 1; leanings: (n, r);
    gram: Σ q_j leanings_j leanings_jᵀ (r, r); centre: Σ q_j leanings_j (r,). To second order in u, and with what
    she did not use counted as well, u solves (I + k gram) u = Σ_{j used} leanings_j − k centre.
    """
    rank = leanings.shape[1]
    out = np.zeros((len(indptr) - 1, rank))
    normal = np.empty((rank, rank))
    for i in range(len(out)):
        used = indptr[i + 1] - indptr[i]
        for a in range(rank):
            out[i, a] = -used * centre[a]
            for b in range(a + 1):
                normal[a, b] = used * gram[a, b]
            normal[a, a] += 1.0
        for p in range(indptr[i], indptr[i + 1]):
            for a in range(rank):
                out[i, a] += leanings[indices[p], a]
        _solve_in_place(normal, out[i])
    return out

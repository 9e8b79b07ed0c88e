"""The constants of the statistical tests, in one place.

All samples come from seeded bits, so a test that passes today passes tomorrow; ALPHA matters when a seed or a
sampler is changed: of 1000 such tests, one fails by chance in 1000 changes.

Power. A scale that is wrong by a factor 1 + d moves the chi-squared statistic of fine bins by about 2 n d^2.
With n = 400,000 and d = 0.02 that is 320 (200 for the few bins of sigma = 0.3), where 64 bins reject at ALPHA
from 139 on (63 expected) and 5 bins from 35 on. So the right scale passes and 1.02, 2/3 and 3/2 of it fail,
all by far. Flip rates: at epsilon = 5 (the least power) 15 % off is 7.7 standard deviations, ALPHA is 4.9.
"""

ALPHA = 1e-6
NOISE_SAMPLES = 400_000
NOISE_BINS = 64
WRONG_SCALES = (2 / 3, 1 / 1.02, 1.02, 3 / 2)
REPLAYED_SAMPLES = 3_000
WRONG_FLIP_RATES = (2 / 3, 0.85, 1.15, 3 / 2)

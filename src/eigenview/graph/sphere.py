"""The uniform distribution on the sphere: what a spread of embeddings is held against."""

import math

from eigenview.errors import SettingError


def uniformity_floor(dimension: int, *, t: float = 2.0, items: int | None = None) -> float:
    """The smallest uniformity in ``dimension``: F = log ₀F₁(; d/2; t²) − 2t, reached by the uniform distribution.

    With ``items``: the bound for that many points, log((n·e^F − 1)/(n − 1)), −inf where it says nothing.
    ₀F₁(; b; x) = Σ_k x^k / (k!·b(b+1)…(b+k−1)): positive terms, summed by their logarithms, so that any d and t do.
    """
    if dimension < 1 or not t > 0:
        raise SettingError(f"the floor needs dimension >= 1 and t > 0; got {dimension} and {t}")
    b, log_x = dimension / 2, 2 * math.log(t)
    terms = [
        k * log_x - math.lgamma(k + 1) - math.lgamma(b + k) + math.lgamma(b)
        for k in range(math.ceil(4 * t) + 64)  # terms fall by more than 1/4 each from k = 2t on
    ]
    floor = max(terms) + math.log(math.fsum(math.exp(term - max(terms)) for term in terms)) - 2 * t
    if items is None:
        return floor
    excess = items * math.exp(floor) - 1
    return math.log(excess / (items - 1)) if excess > 0 else -math.inf

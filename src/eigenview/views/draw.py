"""Random numbers that are a pure function of (seed, epoch, item index, view number, slot): no state, no order.

Each number is a splitmix64 hash (Steele, Lea, Flood 2014) of its five coordinates, so a batch's numbers come from a few
vectorised operations and do not depend on what else is in the batch, on workers, processes or devices. They are drawn
on the host with NumPy and only then sent to where the images are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Keys = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # odd, so multiplying by it is a bijection of 64-bit words
_MASK = 2**64 - 1


def view_keys(seed: int, epoch: int, indices: Ints, views: Sequence[int]) -> Keys:
    """One 64-bit key for each view of each item, (views, n); the numbers of a view are hashed from its key."""
    with np.errstate(over="ignore"):  # arithmetic modulo 2⁶⁴ is the point
        key = _absorb(np.zeros(1, dtype=np.uint64), _word(seed))
        key = _absorb(key, _word(epoch))
        key = _absorb(key, indices.astype(np.uint64))
        return _absorb(key[None, :], np.asarray(views, dtype=np.uint64)[:, None])


def uniforms(keys: Keys, first: int, count: int) -> Floats:
    """Uniform numbers in [0, 1) with 53 random bits, for ``count`` slots from ``first`` on: (*keys.shape, count)."""
    slots = np.arange(first, first + count, dtype=np.uint64)
    with np.errstate(over="ignore"):
        bits = _absorb(keys[..., None], slots)
    numbers: Floats = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return numbers


def _word(number: int) -> Keys:
    return np.array([number & _MASK], dtype=np.uint64)


def _absorb(key: Keys, word: Keys) -> Keys:
    return _mix(key + (word + np.uint64(1)) * _GOLDEN)


def _mix(bits: Keys) -> Keys:
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Keys = bits ^ (bits >> np.uint64(31))
    return mixed

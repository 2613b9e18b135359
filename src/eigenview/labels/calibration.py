"""Are probabilities right as often as they say?"""

from __future__ import annotations

from torch import Tensor

from eigenview.errors import ShapeError


def calibration_error(confidence: Tensor, is_right: Tensor, *, bins: int = 15) -> float:
    """Expected calibration error: the mean of |accuracy − confidence| over ``bins`` of equally many rows each.

    ``confidence`` (n,) is the probability of the class that was said, ``is_right`` (n,) whether it was that class.
    """
    if confidence.shape != is_right.shape or confidence.ndim != 1 or len(confidence) == 0:
        raise ShapeError(
            f"confidence and is_right must be (n,); got {tuple(confidence.shape)}, {tuple(is_right.shape)}"
        )
    order = confidence.argsort()
    gaps = (confidence.double() - is_right.double())[order]
    return sum(abs(float(gap.sum())) for gap in gaps.tensor_split(min(bins, len(gaps)))) / len(gaps)

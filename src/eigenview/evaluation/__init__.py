"""How good a representation is: the protocols of the field, from features computed once."""

from __future__ import annotations

from eigenview.evaluation.features import PROJECTION, Features, extract
from eigenview.evaluation.knn import Neighbours, knn_predict, nearest

__all__ = ["PROJECTION", "Features", "Neighbours", "extract", "knn_predict", "nearest"]

"""How good a representation is: the protocols of the field, from features computed once."""

from __future__ import annotations

from eigenview.evaluation.features import PROJECTION, Features, extract
from eigenview.evaluation.knn import Neighbours, knn_predict, nearest
from eigenview.evaluation.linear import LinearClassifier, Selection, fit_logistic, select_logistic

__all__ = [
    "PROJECTION",
    "Features",
    "LinearClassifier",
    "Neighbours",
    "Selection",
    "extract",
    "fit_logistic",
    "knn_predict",
    "nearest",
    "select_logistic",
]

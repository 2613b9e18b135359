"""How good a representation is: the protocols of the field, from features computed once."""

from __future__ import annotations

from eigenview.evaluation.features import PROJECTION, Features, extract
from eigenview.evaluation.knn import Neighbours, knn_predict, nearest
from eigenview.evaluation.linear import LinearClassifier, Selection, fit_logistic, select_logistic
from eigenview.evaluation.probe import FeatureRows, ProbeResult, ViewRows, train_probe
from eigenview.evaluation.protocols import PROTOCOLS, ProbeProtocol, ProbeViews, find_protocol

__all__ = [
    "PROJECTION",
    "PROTOCOLS",
    "FeatureRows",
    "Features",
    "LinearClassifier",
    "Neighbours",
    "ProbeProtocol",
    "ProbeResult",
    "ProbeViews",
    "Selection",
    "ViewRows",
    "extract",
    "find_protocol",
    "fit_logistic",
    "knn_predict",
    "nearest",
    "select_logistic",
    "train_probe",
]

"""The image graph at work: which pictures to label, the labels of the rest, and which labels to doubt."""

from __future__ import annotations

from eigenview.labels.auditing import Suspicions, audit_labels
from eigenview.labels.calibration import calibration_error
from eigenview.labels.choosing import CHOOSERS, choose
from eigenview.labels.graph import ImageGraph, Projection, image_graph, projection
from eigenview.labels.kept import KeptGraph, kept_graph
from eigenview.labels.live import Head, LiveLabels, graph_and_head
from eigenview.labels.spreading import harmonic, label_spreading, poisson

__all__ = [
    "CHOOSERS",
    "Head",
    "ImageGraph",
    "KeptGraph",
    "LiveLabels",
    "Projection",
    "Suspicions",
    "audit_labels",
    "calibration_error",
    "choose",
    "graph_and_head",
    "harmonic",
    "image_graph",
    "kept_graph",
    "label_spreading",
    "poisson",
    "projection",
]

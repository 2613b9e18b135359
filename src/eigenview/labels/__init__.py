"""The image graph at work: which pictures to label, the labels of the rest, and which labels to doubt."""

from __future__ import annotations

from eigenview.labels.auditing import Suspicions, audit_labels
from eigenview.labels.audits import Audit, Outlier, Suspect, audit
from eigenview.labels.calibration import calibration_error
from eigenview.labels.choosing import CHOOSERS, choose
from eigenview.labels.clusters import ImageClusters, cluster_images
from eigenview.labels.graph import ImageGraph, Projection, image_graph, projection
from eigenview.labels.kept import KeptGraph, kept_graph
from eigenview.labels.label_files import GivenLabels, labels_from, own_labels, read_labels, write_labels
from eigenview.labels.leaks import SharedPair, SharedPictures, shared_pictures
from eigenview.labels.live import Head, LiveLabels, graph_and_head
from eigenview.labels.spreading import harmonic, label_spreading, poisson
from eigenview.labels.suggesting import (
    SPREADERS,
    Chosen,
    Labeller,
    Suggestions,
    choose_images,
    read_labeller,
    spread_labels,
)

__all__ = [
    "CHOOSERS",
    "SPREADERS",
    "Audit",
    "Chosen",
    "GivenLabels",
    "Head",
    "ImageClusters",
    "ImageGraph",
    "KeptGraph",
    "Labeller",
    "LiveLabels",
    "Outlier",
    "Projection",
    "SharedPair",
    "SharedPictures",
    "Suggestions",
    "Suspect",
    "Suspicions",
    "audit",
    "audit_labels",
    "calibration_error",
    "choose",
    "choose_images",
    "cluster_images",
    "graph_and_head",
    "harmonic",
    "image_graph",
    "kept_graph",
    "label_spreading",
    "labels_from",
    "own_labels",
    "poisson",
    "projection",
    "read_labeller",
    "read_labels",
    "shared_pictures",
    "spread_labels",
    "write_labels",
]

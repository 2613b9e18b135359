"""The image graph at work: which pictures to label, the labels of the rest, and which labels to doubt."""

from eigenview.labels.auditing import audit_labels
from eigenview.labels.audits import Audit, audit
from eigenview.labels.choosing import choose
from eigenview.labels.clusters import ImageClusters, cluster_images
from eigenview.labels.graph import image_graph, kept_graph
from eigenview.labels.label_files import labels_from, own_labels, read_labels
from eigenview.labels.leaks import shared_pictures
from eigenview.labels.live import Head, LiveLabels, graph_and_head
from eigenview.labels.spreading import harmonic, label_spreading, poisson
from eigenview.labels.suggesting import Chosen, Labeller, Suggestions, choose_images, read_labeller, spread_labels

__all__ = [
    "Audit",
    "Chosen",
    "Head",
    "ImageClusters",
    "Labeller",
    "LiveLabels",
    "Suggestions",
    "audit",
    "audit_labels",
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
    "read_labeller",
    "read_labels",
    "shared_pictures",
    "spread_labels",
]

"""Is a representation any good, without labels: figures with intervals, and a verdict in plain words."""

from __future__ import annotations

from eigenview.diagnostics.clusters import cluster_count, connectivity, prototype_usage
from eigenview.diagnostics.diagnosis import Sampling, diagnose, diagnosed
from eigenview.diagnostics.dimensions import effective_rank, singular_values, spectrum
from eigenview.diagnostics.duplicates import duplicate_share, near_duplicates
from eigenview.diagnostics.estimates import Estimate
from eigenview.diagnostics.figures import Diagnosis, Figures, Finding
from eigenview.diagnostics.modalities import Modalities, both_modalities
from eigenview.diagnostics.neighbours import hubness, matched_views, neighbourhood_preservation
from eigenview.diagnostics.progress import RunProgress
from eigenview.diagnostics.sphere import alignment_figure, mean_cosine, tolerance, uniformity_figure
from eigenview.diagnostics.verdict import THRESHOLDS, Thresholds, judge

__all__ = [
    "THRESHOLDS",
    "Diagnosis",
    "Estimate",
    "Figures",
    "Finding",
    "Modalities",
    "RunProgress",
    "Sampling",
    "Thresholds",
    "alignment_figure",
    "both_modalities",
    "cluster_count",
    "connectivity",
    "diagnose",
    "diagnosed",
    "duplicate_share",
    "effective_rank",
    "hubness",
    "judge",
    "matched_views",
    "mean_cosine",
    "near_duplicates",
    "neighbourhood_preservation",
    "prototype_usage",
    "singular_values",
    "spectrum",
    "tolerance",
    "uniformity_figure",
]

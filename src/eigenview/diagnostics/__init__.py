"""Is a representation any good, without labels: figures with intervals, and a verdict in plain words."""

from eigenview.diagnostics.clusters import cluster_count, connectivity, prototype_usage
from eigenview.diagnostics.diagnosis import Sampling, diagnose, diagnosed
from eigenview.diagnostics.dimensions import effective_rank, spectrum
from eigenview.diagnostics.figures import Diagnosis, RunProgress
from eigenview.diagnostics.modalities import both_modalities
from eigenview.diagnostics.neighbours import (
    duplicate_share,
    hubness,
    matched_views,
    near_duplicates,
    neighbourhood_preservation,
)
from eigenview.diagnostics.sphere import alignment_figure, mean_cosine, tolerance, uniformity_figure
from eigenview.diagnostics.verdict import Thresholds

__all__ = [
    "Diagnosis",
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
    "matched_views",
    "mean_cosine",
    "near_duplicates",
    "neighbourhood_preservation",
    "prototype_usage",
    "spectrum",
    "tolerance",
    "uniformity_figure",
]

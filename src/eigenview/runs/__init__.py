"""The only owner of a run directory: settings, checkpoints, metrics, scores, diagnosis, sample; versioned."""

from __future__ import annotations

from eigenview.runs.checkpoints import BEST, LAST, PREVIOUS, Checkpoint, Checkpoints
from eigenview.runs.config import TrainConfig, load_config, merge_settings, read_config, stored_settings
from eigenview.runs.directory import UNREADABLE, RunDirectory, is_run
from eigenview.runs.facts import DataFacts, EnvironmentFacts, data_facts, environment_facts
from eigenview.runs.lock import RunLock
from eigenview.runs.metrics import Metrics, MetricsFile, number
from eigenview.runs.sample import Packed, Sample, Sheets, label_sample, write_sample
from eigenview.runs.scores import SEEN, Score, ScoreFolder
from eigenview.runs.trained import OWN, TrainedRun, fresh_copy, open_run

__all__ = [
    "BEST",
    "LAST",
    "OWN",
    "PREVIOUS",
    "SEEN",
    "UNREADABLE",
    "Checkpoint",
    "Checkpoints",
    "DataFacts",
    "EnvironmentFacts",
    "Metrics",
    "MetricsFile",
    "Packed",
    "RunDirectory",
    "RunLock",
    "Sample",
    "Score",
    "ScoreFolder",
    "Sheets",
    "TrainConfig",
    "TrainedRun",
    "data_facts",
    "environment_facts",
    "fresh_copy",
    "is_run",
    "label_sample",
    "load_config",
    "merge_settings",
    "number",
    "open_run",
    "read_config",
    "stored_settings",
    "write_sample",
]

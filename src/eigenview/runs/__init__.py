"""The only owner of a run directory: settings, checkpoints, metrics, scores, diagnosis, sample; versioned."""

from eigenview.runs.by_name import (
    NamedEncoder,
    best_encoder,
    encoder_named,
    folder_for,
    folder_of_vectors,
    open_encoder,
    open_named,
)
from eigenview.runs.checkpoints import BEST, LAST, PREVIOUS, Checkpoint
from eigenview.runs.config import TrainConfig, merge_settings, read_config, stored_settings
from eigenview.runs.directory import EMBEDDINGS, RunDirectory, is_run
from eigenview.runs.facts import EncoderRecord, data_facts, environment_facts
from eigenview.runs.metrics import MetricsFile, number
from eigenview.runs.opened import OWN, PUBLISHED, OpenedRun, fresh_copy, open_run
from eigenview.runs.sample import Packed, Sample, Sheets, Words, WordsExample, label_sample, write_sample
from eigenview.runs.scores import SEEN, Score

__all__ = [
    "BEST",
    "EMBEDDINGS",
    "LAST",
    "OWN",
    "PREVIOUS",
    "PUBLISHED",
    "SEEN",
    "Checkpoint",
    "EncoderRecord",
    "MetricsFile",
    "NamedEncoder",
    "OpenedRun",
    "Packed",
    "RunDirectory",
    "Sample",
    "Score",
    "Sheets",
    "TrainConfig",
    "Words",
    "WordsExample",
    "best_encoder",
    "data_facts",
    "encoder_named",
    "environment_facts",
    "folder_for",
    "folder_of_vectors",
    "fresh_copy",
    "is_run",
    "label_sample",
    "merge_settings",
    "number",
    "open_encoder",
    "open_named",
    "open_run",
    "read_config",
    "stored_settings",
    "write_sample",
]

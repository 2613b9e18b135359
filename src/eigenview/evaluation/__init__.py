"""How good a representation is: the protocols of the field, from features computed once."""

from __future__ import annotations

from eigenview.evaluation.baselines import RawPixels, untrained_like
from eigenview.evaluation.clustering import (
    adjusted_rand_index,
    cluster,
    cluster_hits,
    contingency,
    normalised_mutual_information,
)
from eigenview.evaluation.comparison import Compared, compare, compare_runs, comparison_table, table
from eigenview.evaluation.dense import DepthDecoder, DepthProtocol, DepthResult, depth_scores, predict_depth
from eigenview.evaluation.evaluate import EVALUATIONS, Split, evaluate
from eigenview.evaluation.evaluate_run import Subject, evaluate_run, subjects
from eigenview.evaluation.features import PROJECTION, Features, extract
from eigenview.evaluation.few_label import FewLabels, few_label_accuracy
from eigenview.evaluation.finetune import finetune, finetune_scores
from eigenview.evaluation.folds import fold_scores, read_folds
from eigenview.evaluation.knn import Neighbours, knn_predict, nearest
from eigenview.evaluation.linear import LinearClassifier, Selection, fit_logistic, select_logistic
from eigenview.evaluation.probe import FeatureRows, ProbeResult, ViewRows, train_probe
from eigenview.evaluation.probe_scores import view_probe_scores
from eigenview.evaluation.protocols import (
    FINETUNES,
    PROTOCOLS,
    FinetuneProtocol,
    ProbeProtocol,
    ProbeViews,
    find_protocol,
)
from eigenview.evaluation.retrieval import Retrieval, retrieve
from eigenview.evaluation.run_diagnosis import diagnose_encoder, diagnose_run, load_diagnosis, save_diagnosis
from eigenview.evaluation.run_head import find_head, run_head
from eigenview.evaluation.runs import EvaluatedRun, open_run
from eigenview.evaluation.sample import Sample, read_sample, write_sample
from eigenview.evaluation.scores import (
    Score,
    bootstrap_interval,
    load_scores,
    mean_score,
    over_repeats,
    save_score,
)
from eigenview.evaluation.selection import EncoderChoice, choose_encoder
from eigenview.evaluation.transfer import transfer

__all__ = [
    "EVALUATIONS",
    "FINETUNES",
    "PROJECTION",
    "PROTOCOLS",
    "Compared",
    "DepthDecoder",
    "DepthProtocol",
    "DepthResult",
    "EncoderChoice",
    "EvaluatedRun",
    "FeatureRows",
    "Features",
    "FewLabels",
    "FinetuneProtocol",
    "LinearClassifier",
    "Neighbours",
    "ProbeProtocol",
    "ProbeResult",
    "ProbeViews",
    "RawPixels",
    "Retrieval",
    "Sample",
    "Score",
    "Selection",
    "Split",
    "Subject",
    "ViewRows",
    "adjusted_rand_index",
    "bootstrap_interval",
    "choose_encoder",
    "cluster",
    "cluster_hits",
    "compare",
    "compare_runs",
    "comparison_table",
    "contingency",
    "depth_scores",
    "diagnose_encoder",
    "diagnose_run",
    "evaluate",
    "evaluate_run",
    "extract",
    "few_label_accuracy",
    "find_head",
    "find_protocol",
    "finetune",
    "finetune_scores",
    "fit_logistic",
    "fold_scores",
    "knn_predict",
    "load_diagnosis",
    "load_scores",
    "mean_score",
    "nearest",
    "normalised_mutual_information",
    "open_run",
    "over_repeats",
    "predict_depth",
    "read_folds",
    "read_sample",
    "retrieve",
    "run_head",
    "save_diagnosis",
    "save_score",
    "select_logistic",
    "subjects",
    "table",
    "train_probe",
    "transfer",
    "untrained_like",
    "view_probe_scores",
    "write_sample",
]

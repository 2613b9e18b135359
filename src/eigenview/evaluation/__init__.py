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
from eigenview.evaluation.dense import DepthDecoder, DepthProtocol, DepthResult, predict_depth
from eigenview.evaluation.evaluate import EVALUATIONS, Split, evaluate
from eigenview.evaluation.features import PROJECTION, Features, extract
from eigenview.evaluation.few_label import FewLabels, few_label_accuracy
from eigenview.evaluation.finetune import finetune, finetune_scores
from eigenview.evaluation.knn import Neighbours, knn_predict, nearest
from eigenview.evaluation.linear import LinearClassifier, Selection, fit_logistic, select_logistic
from eigenview.evaluation.probe import FeatureRows, ProbeResult, ViewRows, train_probe
from eigenview.evaluation.protocols import (
    FINETUNES,
    PROTOCOLS,
    FinetuneProtocol,
    ProbeProtocol,
    ProbeViews,
    find_protocol,
)
from eigenview.evaluation.retrieval import Retrieval, retrieve
from eigenview.evaluation.runs import EvaluatedRun, open_run
from eigenview.evaluation.scores import (
    Compared,
    Score,
    bootstrap_interval,
    compare,
    load_scores,
    mean_score,
    save_score,
)
from eigenview.evaluation.selection import EncoderChoice, choose_encoder
from eigenview.evaluation.transfer import table, transfer

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
    "Score",
    "Selection",
    "Split",
    "ViewRows",
    "adjusted_rand_index",
    "bootstrap_interval",
    "choose_encoder",
    "cluster",
    "cluster_hits",
    "compare",
    "contingency",
    "evaluate",
    "extract",
    "few_label_accuracy",
    "find_protocol",
    "finetune",
    "finetune_scores",
    "fit_logistic",
    "knn_predict",
    "load_scores",
    "mean_score",
    "nearest",
    "normalised_mutual_information",
    "open_run",
    "predict_depth",
    "retrieve",
    "save_score",
    "select_logistic",
    "table",
    "train_probe",
    "transfer",
    "untrained_like",
]

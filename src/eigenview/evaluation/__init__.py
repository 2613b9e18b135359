"""How good a representation is: the protocols of the field, from features computed once."""

from __future__ import annotations

from eigenview.evaluation.baselines import ColourStatistics, RawPixels
from eigenview.evaluation.caption_retrieval import CaptionRecall, caption_recall, caption_scores
from eigenview.evaluation.checks import TrainTest
from eigenview.evaluation.clustering import (
    cluster,
    cluster_hits,
    contingency,
    normalised_mutual_information,
)
from eigenview.evaluation.comparison import Compared, compare, compare_runs, comparison_table, table, titles
from eigenview.evaluation.dense import DepthDecoder, DepthProtocol, DepthResult, depth_scores, predict_depth
from eigenview.evaluation.evaluating import PROTOCOLS, Protocol, evaluate, evaluate_run, fold_scores, shown_as
from eigenview.evaluation.features import Features, extract
from eigenview.evaluation.few_label import FewLabels, LabelDraws, few_label_accuracy
from eigenview.evaluation.finetuning import finetune, finetune_scores
from eigenview.evaluation.knn import knn_predict
from eigenview.evaluation.linear import (
    EncoderChoice,
    LinearClassifier,
    Selection,
    choose_encoder,
    fit_logistic,
    select_logistic,
)
from eigenview.evaluation.observation import Observation, Observed, diagnose_observation, observe
from eigenview.evaluation.probe import FeatureRows, ProbeResult, ViewRows, train_probe, view_probe_scores
from eigenview.evaluation.protocol_scores import Split
from eigenview.evaluation.protocols import FINETUNES, PROBES, FinetuneProtocol, ProbeProtocol, ProbeViews
from eigenview.evaluation.retrieval import Retrieval, retrieve
from eigenview.evaluation.run_look import diagnose_run
from eigenview.evaluation.sampling import save_sample
from eigenview.evaluation.scores import Origin, bootstrap_interval, mean_score, over_repeats
from eigenview.evaluation.subjects import BASELINES, Folds, Measuring, Subject, Task, subjects_of
from eigenview.evaluation.tasks import open_folds, open_labelled, open_task, read_folds, split_by_class
from eigenview.evaluation.zero_shot import (
    EVERY_PROTOCOL,
    TEMPLATES,
    WORD_PROTOCOLS,
    class_vectors,
    word_scores,
    zero_shot_scores,
)
from eigenview.graph.clustering import adjusted_rand_index

__all__ = [
    "BASELINES",
    "EVERY_PROTOCOL",
    "FINETUNES",
    "PROBES",
    "PROTOCOLS",
    "TEMPLATES",
    "WORD_PROTOCOLS",
    "CaptionRecall",
    "ColourStatistics",
    "Compared",
    "DepthDecoder",
    "DepthProtocol",
    "DepthResult",
    "EncoderChoice",
    "FeatureRows",
    "Features",
    "FewLabels",
    "FinetuneProtocol",
    "Folds",
    "LabelDraws",
    "LinearClassifier",
    "Measuring",
    "Observation",
    "Observed",
    "Origin",
    "ProbeProtocol",
    "ProbeResult",
    "ProbeViews",
    "Protocol",
    "RawPixels",
    "Retrieval",
    "Selection",
    "Split",
    "Subject",
    "Task",
    "TrainTest",
    "ViewRows",
    "adjusted_rand_index",
    "bootstrap_interval",
    "caption_recall",
    "caption_scores",
    "choose_encoder",
    "class_vectors",
    "cluster",
    "cluster_hits",
    "compare",
    "compare_runs",
    "comparison_table",
    "contingency",
    "depth_scores",
    "diagnose_observation",
    "diagnose_run",
    "evaluate",
    "evaluate_run",
    "extract",
    "few_label_accuracy",
    "finetune",
    "finetune_scores",
    "fit_logistic",
    "fold_scores",
    "knn_predict",
    "mean_score",
    "normalised_mutual_information",
    "observe",
    "open_folds",
    "open_labelled",
    "open_task",
    "over_repeats",
    "predict_depth",
    "read_folds",
    "retrieve",
    "save_sample",
    "select_logistic",
    "shown_as",
    "split_by_class",
    "subjects_of",
    "table",
    "titles",
    "train_probe",
    "view_probe_scores",
    "word_scores",
    "zero_shot_scores",
]

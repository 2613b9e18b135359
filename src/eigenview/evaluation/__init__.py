"""How good a representation is: the protocols of the field, from features computed once."""

from eigenview.evaluation.dense import DepthProtocol, depth_scores
from eigenview.evaluation.evaluating import PROTOCOLS, evaluate, evaluate_run
from eigenview.evaluation.features import TrainTest, extract
from eigenview.evaluation.few_label import LabelDraws, few_label_accuracy
from eigenview.evaluation.finetuning import finetune, finetune_scores
from eigenview.evaluation.linear import choose_encoder, fit_logistic, select_logistic
from eigenview.evaluation.observation import Observed, diagnose_observation, observe
from eigenview.evaluation.probe import view_probe_scores
from eigenview.evaluation.protocols import FINETUNES, PROBES, FinetuneProtocol, ProbeViews
from eigenview.evaluation.run_look import diagnose_run
from eigenview.evaluation.scores import (
    Compared,
    Origin,
    compare,
    compare_runs,
    comparison_table,
    mean_score,
    over_repeats,
    table,
)
from eigenview.evaluation.similarity import knn_predict
from eigenview.evaluation.subjects import (
    BASELINES,
    Folds,
    Measuring,
    Subject,
    Task,
    open_folds,
    open_labelled,
    open_task,
    read_folds,
    split_by_class,
)
from eigenview.evaluation.words import EVERY_PROTOCOL, WORD_PROTOCOLS, word_scores

__all__ = [
    "BASELINES",
    "EVERY_PROTOCOL",
    "FINETUNES",
    "PROBES",
    "PROTOCOLS",
    "WORD_PROTOCOLS",
    "Compared",
    "DepthProtocol",
    "FinetuneProtocol",
    "Folds",
    "LabelDraws",
    "Measuring",
    "Observed",
    "Origin",
    "ProbeViews",
    "Subject",
    "Task",
    "TrainTest",
    "choose_encoder",
    "compare",
    "compare_runs",
    "comparison_table",
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
    "knn_predict",
    "mean_score",
    "observe",
    "open_folds",
    "open_labelled",
    "open_task",
    "over_repeats",
    "read_folds",
    "select_logistic",
    "split_by_class",
    "table",
    "view_probe_scores",
    "word_scores",
]

"""How good a representation is: the protocols of the field, from features computed once."""

from eigenview.evaluation.dense import DepthProtocol, depth_scores
from eigenview.evaluation.evaluating import PROTOCOLS, choose_run, evaluate, evaluate_run
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
    told_apart,
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
    open_tasks,
    read_folds,
    split_by_class,
)
from eigenview.evaluation.words import EVERY_PROTOCOL, WORD_PROTOCOLS, are_by_words, word_scores

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
    "are_by_words",
    "choose_encoder",
    "choose_run",
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
    "open_tasks",
    "over_repeats",
    "read_folds",
    "select_logistic",
    "split_by_class",
    "table",
    "told_apart",
    "view_probe_scores",
    "word_scores",
]

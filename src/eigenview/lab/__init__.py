"""The spectral laboratory: the papers' claims as experiments that run in minutes, with figures and their data."""

from eigenview.lab.experiment import EXPERIMENTS, Experiment, LabSettings, Outcome, run_experiment

__all__ = ["EXPERIMENTS", "Experiment", "LabSettings", "Outcome", "run_experiment"]

"""Encoders and heads by name, and the modules with state that methods train."""

from __future__ import annotations

from eigenview.nn.alexnet import SmallAlexNet
from eigenview.nn.batch_norm import SplitBatchNorm, SynchronisedBatchNorm, split_batch_norm, synchronise
from eigenview.nn.build import ENCODERS, build_encoder, is_own_encoder
from eigenview.nn.encoder import POOLED, Encoder
from eigenview.nn.heads import HEADS, MLP, Identity, build_head, simsiam_predictor
from eigenview.nn.memory import MemoryBank
from eigenview.nn.momentum import MomentumEncoder
from eigenview.nn.prototypes import Prototypes
from eigenview.nn.queues import CropQueue, Queue
from eigenview.nn.resnet import ResNet
from eigenview.nn.shuffle import Shuffle, shuffle_rows, unshuffle_rows
from eigenview.nn.small import SmallEncoder
from eigenview.nn.weights import LoadReport, fill_module, load_weights, read_weights
from eigenview.nn.wrapped import WrappedEncoder, wrap

__all__ = [
    "ENCODERS",
    "HEADS",
    "MLP",
    "POOLED",
    "CropQueue",
    "Encoder",
    "Identity",
    "LoadReport",
    "MemoryBank",
    "MomentumEncoder",
    "Prototypes",
    "Queue",
    "ResNet",
    "Shuffle",
    "SmallAlexNet",
    "SmallEncoder",
    "SplitBatchNorm",
    "SynchronisedBatchNorm",
    "WrappedEncoder",
    "build_encoder",
    "build_head",
    "fill_module",
    "is_own_encoder",
    "load_weights",
    "read_weights",
    "shuffle_rows",
    "simsiam_predictor",
    "split_batch_norm",
    "synchronise",
    "unshuffle_rows",
    "wrap",
]

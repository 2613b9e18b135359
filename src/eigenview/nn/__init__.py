"""Encoders and heads by name, and the modules with state that methods train."""

from __future__ import annotations

from eigenview.nn.alexnet import SmallAlexNet
from eigenview.nn.batch_norm import SplitBatchNorm, SynchronisedBatchNorm, split_batch_norm, synchronise
from eigenview.nn.build import ENCODERS, build_encoder, is_own_encoder
from eigenview.nn.efficientnet import EfficientNetLite0
from eigenview.nn.encoder import POOLED, Encoder
from eigenview.nn.heads import HEADS, MLP, Identity, build_head, simsiam_predictor
from eigenview.nn.inputs import EncoderFacts, InputSpec, LoadedEncoder
from eigenview.nn.memory import MemoryBank
from eigenview.nn.micro_batches import check_micro_batches, in_micro_batches
from eigenview.nn.momentum import MomentumEncoder
from eigenview.nn.pretrained import has_pretrained_efficientnet, load_encoder
from eigenview.nn.prototypes import Prototypes
from eigenview.nn.queues import CropQueue, Queue
from eigenview.nn.resnet import ResNet
from eigenview.nn.shuffle import Shuffle, shuffle_rows, unshuffle_rows
from eigenview.nn.small import SmallEncoder
from eigenview.nn.text import TextEncoder, TextTower, TextTransformer
from eigenview.nn.text_build import TEXT_ENCODERS
from eigenview.nn.tokens import Tokenizer
from eigenview.nn.vit import VisionTransformer
from eigenview.nn.weights import LoadReport, fill_module, load_weights, read_weights
from eigenview.nn.wrapped import WrappedEncoder, wrap

__all__ = [
    "ENCODERS",
    "HEADS",
    "MLP",
    "POOLED",
    "TEXT_ENCODERS",
    "CropQueue",
    "EfficientNetLite0",
    "Encoder",
    "EncoderFacts",
    "Identity",
    "InputSpec",
    "LoadReport",
    "LoadedEncoder",
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
    "TextEncoder",
    "TextTower",
    "TextTransformer",
    "Tokenizer",
    "VisionTransformer",
    "WrappedEncoder",
    "build_encoder",
    "build_head",
    "check_micro_batches",
    "fill_module",
    "has_pretrained_efficientnet",
    "in_micro_batches",
    "is_own_encoder",
    "load_encoder",
    "load_weights",
    "read_weights",
    "shuffle_rows",
    "simsiam_predictor",
    "split_batch_norm",
    "synchronise",
    "unshuffle_rows",
    "wrap",
]

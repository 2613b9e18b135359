"""Encoders and heads by name, and the modules with state that methods train."""

from eigenview.nn.batch_norm import split_batch_norm, synchronise
from eigenview.nn.build import ENCODERS, build_encoder, is_own_encoder, load_encoder
from eigenview.nn.efficientnet import EfficientNetLite0
from eigenview.nn.encoder import POOLED, Encoder
from eigenview.nn.heads import HEADS, MLP, Identity, Prototypes, build_head, simsiam_predictor
from eigenview.nn.memory import CropQueue, MemoryBank, Queue
from eigenview.nn.micro_batches import check_micro_batches, in_micro_batches
from eigenview.nn.momentum import MomentumEncoder, shuffle_rows
from eigenview.nn.resnet import ResNet
from eigenview.nn.small import SmallEncoder
from eigenview.nn.text import TEXT_ENCODERS, TextEncoder, TextTower
from eigenview.nn.tokens import Tokenizer
from eigenview.nn.vit import VisionTransformer
from eigenview.nn.weights import fill_module, load_weights, read_weights
from eigenview.nn.wrapped import wrap

__all__ = [
    "ENCODERS",
    "HEADS",
    "MLP",
    "POOLED",
    "TEXT_ENCODERS",
    "CropQueue",
    "EfficientNetLite0",
    "Encoder",
    "Identity",
    "MemoryBank",
    "MomentumEncoder",
    "Prototypes",
    "Queue",
    "ResNet",
    "SmallEncoder",
    "TextEncoder",
    "TextTower",
    "Tokenizer",
    "VisionTransformer",
    "build_encoder",
    "build_head",
    "check_micro_batches",
    "fill_module",
    "in_micro_batches",
    "is_own_encoder",
    "load_encoder",
    "load_weights",
    "read_weights",
    "shuffle_rows",
    "simsiam_predictor",
    "split_batch_norm",
    "synchronise",
    "wrap",
]

"""The settings of an optimizer and its schedule."""

from typing import Literal

from pydantic import Field

from eigenview.settings import Strict


class OptimizerSettings(Strict):
    name: Literal["sgd", "lars", "larc", "adam", "adamw", "muon"] = "adamw"
    learning_rate: float = Field(1e-3, ge=0)
    learning_rates: dict[str, float] = Field({})  # of parts with one of their own, such as {"head": 0.01}
    encoder_rate: float = Field(1.0, ge=0, le=1)  # of the encoder, as a share of the learning rate
    depth_decay: float = Field(1.0, gt=0, le=1)  # of the encoder's rate, from block to block towards its input
    scaling: Literal["linear", "sqrt", "none"] = "none"  # linear: learning_rate is per 256 images of the global batch
    weight_decay: float = Field(1e-4, ge=0)
    exclude: tuple[str, ...] = ("bias", "norm")  # from decay and adaptation
    momentum: float = Field(0.9, ge=0, lt=1)
    nesterov: bool = False
    betas: tuple[float, float] = (0.9, 0.999)
    trust: float = Field(0.001, gt=0)  # LARS and LARC
    schedule: Literal["cosine", "step", "constant"] = "cosine"
    warmup_epochs: float = Field(0.0, ge=0)
    warmup_start: float = Field(0.0, ge=0)  # as a share of the learning rate
    final: float = Field(0.0, ge=0)  # where the cosine ends, as a share of the learning rate
    milestones: tuple[int, ...] = ()  # epochs at which the step schedule drops
    factor: float = Field(0.1, gt=0)

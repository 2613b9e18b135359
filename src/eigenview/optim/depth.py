"""A learning rate that decays with depth: what was learnt elsewhere is general below, and is changed least there."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn

from eigenview.errors import SettingError
from eigenview.optim.groups import Apart


def blocks_of(names: Iterable[str]) -> list[str]:
    """The blocks of a network by the names of its parameters, from its input on: ``conv_stem``, ``blocks.0``, ….

    A name belongs to what stands before its first number, with the number; without one, to its first word.
    """
    blocks: dict[str, None] = {}
    for name in names:
        words = name.split(".")
        number = next((place for place, word in enumerate(words) if word.isdecimal()), 0)
        blocks[".".join(words[: number + 1])] = None
    return list(blocks)


def depth_rates(encoder: nn.Module, prefix: str, *, top: float, decay: float) -> dict[str, Apart]:
    """The learning rate of every block: ``top`` for the last, × ``decay`` for each block below it."""
    if not 0 < decay <= 1:
        raise SettingError(f"a decay with depth lies in (0, 1]; got {decay}")
    blocks = blocks_of(name for name, _ in encoder.named_parameters())
    return {f"{prefix}{block}": Apart(top * decay**above) for above, block in enumerate(reversed(blocks))}


def freeze_blocks(encoder: nn.Module, count: int) -> list[str]:
    """Stop the first ``count`` blocks from learning; which they are. Nothing is left to learn: refused."""
    blocks = blocks_of(name for name, _ in encoder.named_parameters())
    if not 0 <= count <= len(blocks):
        raise SettingError(f"frozen_blocks lies in 0 … {len(blocks)} for this encoder; got {count}")
    frozen = blocks[:count]
    for name, parameter in encoder.named_parameters():
        if any(name == block or name.startswith(f"{block}.") for block in frozen):
            parameter.requires_grad_(False)
    return frozen

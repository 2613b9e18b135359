"""Code that torch.compile leaves alone, so that a compiled model may call it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import torch

Function = TypeVar("Function", bound=Callable[..., object])


def eager(function: Function) -> Function:
    """A loop over blocks gains nothing from tracing, and a check that looks at values cannot be traced."""
    return cast(Function, torch.compiler.disable(function))  # type: ignore[no-untyped-call]

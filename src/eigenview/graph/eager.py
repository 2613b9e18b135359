"""Code that torch.compile leaves alone, so that a compiled model may call it."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def eager(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """A loop over blocks gains nothing from tracing, and a check that looks at values cannot be traced.

    ``torch.compiler.disable`` is called only while compiling: it would import the compiler, which takes a second.
    """

    @wraps(function)
    def call(*arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        if torch.compiler.is_compiling():
            untraced: Callable[Arguments, Result] = torch.compiler.disable(function)  # type: ignore[no-untyped-call]
            return untraced(*arguments, **options)
        return function(*arguments, **options)

    return call

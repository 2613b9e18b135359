"""torch's compiler, left alone until something is compiled: to import it is a third of what a run needs to start.

Fabric imports it for one class, and torch's optimizers for a mark that some of their methods are not to be traced.
Before it is imported no module is a compiled one and nothing is traced, so both have an answer without it.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch
from torch.optim import Optimizer

COMPILER = "torch._dynamo"
MARK = "__dynamo_disable"  # where torch keeps the untraced twin of a function, once it has made it


class _IsCompiled(type):
    """``isinstance`` as torch's ``OptimizedModule`` answers, whether the compiler is there or not yet."""

    def __instancecheck__(cls, instance: object) -> bool:
        compiler = sys.modules.get(COMPILER)
        return compiler is not None and isinstance(instance, compiler.OptimizedModule)


@contextmanager
def compiler_left_out() -> Iterator[None]:
    """While it is entered, who imports the compiler for ``OptimizedModule`` gets a class that answers like it."""
    if COMPILER in sys.modules:
        yield
        return
    stand_in = ModuleType(COMPILER)
    stand_in.OptimizedModule = _IsCompiled("OptimizedModule", (), {})  # type: ignore[attr-defined]
    sys.modules[COMPILER] = stand_in
    try:
        yield
    finally:
        del sys.modules[COMPILER]


def spare_optimizers() -> None:
    """Methods of optimizers that torch keeps from being traced import the compiler only once somebody compiles."""
    for method in vars(Optimizer).values():
        function = getattr(method, "__wrapped__", None)
        if function is not None and not hasattr(function, MARK):
            setattr(function, MARK, _untraced_when_compiling(function))


def _untraced_when_compiling(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> Any:
        if COMPILER not in sys.modules:
            return function(*arguments, **options)
        untraced = torch.compiler.disable(function)  # type: ignore[no-untyped-call]
        setattr(function, MARK, untraced)
        return untraced(*arguments, **options)

    return call

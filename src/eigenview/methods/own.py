"""Methods of a user's own, named ``module:attribute``: a whole method, or just a loss."""

import inspect
from collections.abc import Callable
from copy import deepcopy
from typing import ClassVar

from torch import Tensor

from eigenview.errors import SettingError
from eigenview.methods.method import Method, MethodContext, MethodSettings, ViewedBatch
from eigenview.methods.pairwise import PairwiseMethod
from eigenview.names import own_code
from eigenview.nn import Encoder


def own_method(name: str) -> type[Method]:
    """The method ``module:attribute``: a subclass of :class:`Method`, or a loss.

    A loss is called with the embeddings (n, d) of every view and ``group=``, and returns one number; it is trained as
    the pairwise methods are, behind the head that the settings name. A module of parameters will do.
    """
    code = own_code(name, kind="method")
    if isinstance(code, type) and issubclass(code, Method) and not inspect.isabstract(code):
        return code
    if callable(code) and not isinstance(code, type) and _takes_group(code):
        return _around(code, name)
    raise SettingError(
        f"method {name} must be a whole subclass of eigenview.methods.Method or a loss(*views, group=None); "
        f"got {_described(code)}"
    )


def _around(loss: Callable[..., object], name: str) -> type[Method]:
    class OwnLossMethod(PairwiseMethod):
        """An encoder, a head, and the user's loss; its chance level is not known, so the rank is watched."""

        has_chance_level: ClassVar = False

        def __init__(self, encoder: Encoder, settings: MethodSettings, context: MethodContext) -> None:
            super().__init__(encoder, settings, context)
            self.objective = deepcopy(loss)  # a module among them starts as it was written, at every run

        def loss(self, views: list[Tensor], batch: ViewedBatch) -> Tensor:
            value = self.objective(*views, group=self.context.group)
            if not isinstance(value, Tensor) or value.ndim != 0:
                got = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else _described(value)
                raise SettingError(f"the loss {name} must return one number, a tensor without dimensions; got {got}")
            return value

        def chance_level(self, items: int) -> None:
            return None

    OwnLossMethod.__name__ = OwnLossMethod.__qualname__ = name.partition(":")[2]
    return OwnLossMethod


def _takes_group(loss: Callable[..., object]) -> bool:
    """Whether it may be called with ``group=``: what makes its value that of all processes' rows."""
    call = loss.forward if hasattr(loss, "forward") else loss
    try:
        parameters = inspect.signature(call).parameters.values()
    except ValueError:  # written in C, it does not say
        return False
    return any(each.name == "group" or each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters)


def _described(code: object) -> str:
    if isinstance(code, type):
        return f"the class {code.__name__}"
    return "a function without group=" if inspect.isfunction(code) else f"a {type(code).__name__}"

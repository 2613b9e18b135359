"""Kernels from text, as configurations and command lines write them: the inverse of ``repr``, without ``eval``."""

import ast
from collections.abc import Callable

from torch import Tensor

from eigenview.errors import SettingError
from eigenview.graph import kernels
from eigenview.graph.kernels import Kernel
from eigenview.graph.scalars import learnable
from eigenview.names import Table

PARTS: Table[Callable[..., Kernel | Tensor]] = Table(
    "kernel",
    {
        "Cauchy": kernels.CauchyKernel,
        "Cosine": kernels.CosineKernel,
        "Exponential": kernels.ExponentialKernel,
        "Gaussian": kernels.GaussianKernel,
        "InnerProduct": kernels.InnerProductKernel,
        "Laplacian": kernels.LaplacianKernel,
        "StudentT": kernels.StudentTKernel,
        "concat": kernels.concatenated,
        "learnable": learnable,
    },
)


def read_kernel(text: str) -> Kernel:
    """The kernel that ``text`` writes, such as ``Gaussian(0.2) + 0.5 * Laplacian(temperature=0.5)``."""
    try:
        kernel = _value(ast.parse(text.strip(), mode="eval").body, text)
    except (SyntaxError, TypeError) as error:
        raise SettingError(f"cannot read the kernel {text!r}: {error}") from None
    if not isinstance(kernel, Kernel):
        raise SettingError(f"{text!r} is not a kernel; write something like Gaussian(0.2) + Laplacian(0.5)")
    return kernel


def _value(node: ast.expr, text: str) -> Kernel | Tensor | float:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        return -_value(node.operand, text)  # type: ignore[operator]
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult)):
        left, right = _value(node.left, text), _value(node.right, text)
        return left + right if isinstance(node.op, ast.Add) else left * right  # type: ignore[operator]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        build = PARTS.find(node.func.id)
        arguments = [_value(argument, text) for argument in node.args]
        options = {option.arg: _value(option.value, text) for option in node.keywords if option.arg}
        return build(*arguments, **options)
    raise SettingError(
        f"cannot read {ast.unparse(node)!r} in the kernel {text!r}; kernels are {', '.join(PARTS)}, numbers, + and *"
    )

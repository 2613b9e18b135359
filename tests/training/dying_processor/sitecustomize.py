"""A processor that half precision kills, made of one that it does not: Python starts with this where it is on the path.

Every product of half precision on the CPU ends the process by SIGILL, as oneDNN's kernels do on a virtual machine that
advertises AMX and does not have it; with HALF_PRECISION=lower only without the lower set of instructions.
"""

import os
import signal

import torch
from torch.utils._python_dispatch import TorchDispatchMode

PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "convolution", "convolution_backward", "mkldnn_convolution")
HALVES = (torch.bfloat16, torch.float16)


class Dying(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.overloadpacket.__name__ in PRODUCTS:
            tensors = [value for value in args if isinstance(value, torch.Tensor)]
            is_safe = os.environ["HALF_PRECISION"] == "lower" and "ONEDNN_MAX_CPU_ISA" in os.environ
            if not is_safe and any(tensor.dtype in HALVES for tensor in tensors):
                os.kill(os.getpid(), signal.SIGILL)
        return func(*args, **(kwargs or {}))


Dying().__enter__()

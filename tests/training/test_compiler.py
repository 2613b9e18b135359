"""torch's compiler, and SymPy, are not imported before something is compiled, and are as ever once it is."""

import subprocess
import sys
from pathlib import Path

RUN = """
import sys
import eigenview

eigenview.train("shapes?count=64&size=32", out=sys.argv[1], steps=2, batch_size=16, look=False)
print([name for name in ("torch._dynamo", "sympy") if name in sys.modules])
"""

THEN_COMPILED = """
import torch
from lightning_fabric.wrappers import OptimizedModule

plain = torch.nn.Linear(2, 2)
before = isinstance(plain, OptimizedModule)
compiled = torch.compile(plain, backend="eager")
print(before, isinstance(plain, OptimizedModule), isinstance(compiled, OptimizedModule))

optimizer = torch.optim.SGD(plain.parameters(), lr=1.0)
seen = []

def forget(graph, examples):
    seen.append(graph)
    return graph.forward

def step(rows):
    loss = compiled(rows).sum()
    optimizer.zero_grad()
    return 2 * loss

compiled(torch.ones(1, 2)).sum().backward()
torch.compile(step, backend=forget)(torch.ones(1, 2))
print(plain.weight.grad is None, len(seen) > 1)
"""


def _said(code: str, folder: Path) -> list[str]:
    command = [sys.executable, "-c", code, str(folder / "run")]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def test_a_run_that_is_not_compiled_does_without_the_compiler(tmp_path: Path) -> None:
    assert _said(RUN, tmp_path)[-1] == "[]"


def test_what_is_compiled_after_a_run_is_known_and_optimizers_stay_untraced(tmp_path: Path) -> None:
    assert _said(RUN + THEN_COMPILED, tmp_path)[-2:] == ["False False True", "True True"]

"""kNN and the linear probe on 50,000 x 512 training and 10,000 test features, side by side with peers.

    .venv-peers/bin/python benchmarks/evaluation.py --json evaluation.json
    .venv-peers/bin/python benchmarks/evaluation.py --quick        # a tenth of the rows, one round: does it run

float32, two threads. Features are drawn: ten Gaussian classes with a falling spectrum, as a trained encoder's have.
kNN: k = 200, weights exp(cos/0.1). The bare contender is what kNN cannot do without: products in the same blocks, and
top-k. Linear: six penalties, five given folds, the fit to all rows.

scikit-learn's LogisticRegressionCV runs once, with its default tolerance (minutes; --skip-sklearn leaves it out). There
it stops above the optimum. So accuracies are compared twice: with it as it is, and with LogisticRegression at the
penalty that Eigenview chose, in float64 until its gradient is below 1e-8, which is the bar of equal accuracy.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from bars import Bar, best_times, finish
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize, one_hot

from eigenview.evaluation import knn_predict
from eigenview.evaluation.linear import INVERSE_PENALTIES, select_logistic, stratified_folds
from eigenview.graph.nearest import BLOCK_ELEMENTS

TRAIN, TEST, WIDTH, CLASSES, K, TEMPERATURE = 50_000, 10_000, 512, 10, 200, 0.1
FOLDS, QUICK = 5, 10  # a quick run has a tenth of the rows


def drawn(rows: int, seed: int) -> tuple[Tensor, Tensor]:
    """Features and labels; classes overlap, so that a linear classifier is right about nine times in ten."""
    shared = torch.Generator().manual_seed(0)
    axes = torch.linalg.qr(torch.randn(WIDTH, WIDTH, generator=shared)).Q * torch.logspace(0.5, -1.5, WIDTH)[:, None]
    centres = torch.randn(CLASSES, WIDTH, generator=shared) * 0.14
    own = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (rows,), generator=own)
    return (centres[labels] + torch.randn(rows, WIDTH, generator=own)) @ axes, labels


def vote(similarity: Tensor, index: Tensor, labels: Tensor) -> Tensor:
    weights = (similarity / TEMPERATURE).exp()
    totals = torch.zeros(len(index), CLASSES).scatter_add_(1, labels[index], weights)
    return totals.argmax(dim=1)


def neighbours_contenders(train: int, test: int) -> dict[str, Callable[[], Tensor]]:
    """Each predicts the classes of the test rows; normalising is everyone's first step."""
    (bank, labels), (queries, _) = drawn(train, 1), drawn(test, 2)

    def ours() -> Tensor:
        return knn_predict(bank, labels, queries, k=(K,), temperature=TEMPERATURE)[K]

    def bare() -> Tensor:
        rows, points = normalize(bank, dim=1), normalize(queries, dim=1)
        step = BLOCK_ELEMENTS // len(rows)
        space = torch.empty(step, len(rows))
        classes = []
        for start in range(0, len(points), step):
            block = points[start : start + step]
            scores = torch.mm(block, rows.T, out=space[: len(block)])
            classes.append(vote(*scores.topk(K, dim=1), labels))
        return torch.cat(classes)

    def solo_learn_formula() -> Tensor:
        """Chunks of queries by the size of their similarities, one-hot retrieval, weighted sum."""
        rows, points = normalize(bank, dim=1), normalize(queries, dim=1)
        classes = []
        for block in points.split(max(1, 5_000_000 // len(rows))):
            similarity, index = (block @ rows.T).topk(K, dim=1)
            votes = one_hot(labels[index], CLASSES) * (similarity / TEMPERATURE).exp()[:, :, None]
            classes.append(votes.sum(dim=1).argmax(dim=1))
        return torch.cat(classes)

    contenders = {"Eigenview": ours, "bare products + top-k": bare, "solo-learn's formula": solo_learn_formula}
    try:
        from lightly.utils.benchmarking import knn_predict as lightly_knn

        def lightly() -> Tensor:
            rows, points = normalize(bank, dim=1).T.contiguous(), normalize(queries, dim=1)
            parts = [lightly_knn(block, rows, labels, CLASSES, K, TEMPERATURE)[:, 0] for block in points.split(512)]
            return torch.cat(parts)

        contenders["lightly"] = lightly
    except ImportError:
        print("lightly is not installed: it is left out")
    try:
        import faiss

        faiss.omp_set_num_threads(torch.get_num_threads())

        def flat_index() -> Tensor:
            index = faiss.IndexFlatIP(WIDTH)
            index.add(normalize(bank, dim=1).numpy())
            similarity, rows = index.search(normalize(queries, dim=1).numpy(), K)
            return vote(torch.from_numpy(similarity), torch.from_numpy(rows), labels)

        contenders["faiss IndexFlatIP"] = flat_index
    except ImportError:
        print("faiss is not installed: its bar is left out")
    return contenders


def compare_neighbours(rounds: int, part: int) -> dict[str, float]:
    contenders = neighbours_contenders(TRAIN // part, TEST // part)
    reference = contenders["Eigenview"]()
    for name, run in contenders.items():
        print(f"  {name:24s} agrees on {100 * (run() == reference).double().mean():.2f} % of the classes")
    times = best_times(contenders, rounds)
    print(f"\nkNN, {TEST // part:,} queries, {TRAIN // part:,} rows, k = {K}: seconds")
    for name, seconds in times.items():
        print(f"  {name:24s} {seconds:7.2f}")
    return times


def extra_memory(part: int) -> float:
    command = [sys.executable, __file__, "--memory", *(["--quick"] if part > 1 else [])]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(answer.stdout.splitlines()[-1]))


def measure_memory(part: int) -> None:
    """MB by which one kNN call raises the process's peak above its state before."""
    run = neighbours_contenders(TRAIN // part, TEST // part)["Eigenview"]
    bank, labels = drawn(1000, 3)
    knn_predict(bank, labels, bank, k=(K,))  # libraries loaded, threads started
    before = memory_line("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    run()
    print(json.dumps(memory_line("VmHWM") - before))


def memory_line(key: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(key)).split()[1]) / 1024


def objective(rows: Tensor, labels: Tensor, weight: Tensor, bias: Tensor, c: float) -> float:
    """The mean training loss with penalty that both minimise, in float64."""
    logits = rows.double() @ weight.double().T + bias.double()
    return float(cross_entropy(logits, labels) + weight.double().square().sum() / (2 * c * len(rows)))


def compare_linear(rounds: int, part: int, runs_sklearn: bool) -> dict[str, float]:
    (train, labels), (test, _) = drawn(TRAIN // part, 1), drawn(TEST // part, 2)
    fold = stratified_folds(labels, FOLDS)
    selection = select_logistic(train, labels, folds=fold)
    seconds = best_times({"Eigenview": lambda: select_logistic(train, labels, folds=fold)}, rounds)["Eigenview"]
    print(f"\nlinear, {len(INVERSE_PENALTIES)} penalties, {FOLDS} folds, {len(train):,} rows")
    best = selection.classifier
    measured = linear_line("Eigenview", "", seconds, selection.inverse_penalty, best.weight, best.bias, train, test)
    if not runs_sklearn:
        return measured
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of parameters that will be renamed
        seconds, c, weight, bias = cross_validated(train, labels, fold)
        measured |= linear_line("LogisticRegressionCV", "sklearn_", seconds, c, weight, bias, train, test)
        seconds, weight, bias = converged(train, labels, selection.inverse_penalty)
        c = selection.inverse_penalty
        measured |= linear_line("LogisticRegression to 1e-8", "converged_", seconds, c, weight, bias, train, test)
    logits = test.double() @ weight.T + bias
    measured["converged_same_classes"] = float((logits.argmax(dim=1) == best.predict(test)).double().mean())
    print(f"  its classes equal Eigenview's on {100 * measured['converged_same_classes']:.2f} % of the test rows")
    return measured


def cross_validated(train: Tensor, labels: Tensor, fold: Tensor) -> tuple[float, float, Tensor, Tensor]:
    """Seconds, the penalty chosen, weights and biases of scikit-learn's own selection on the same folds."""
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.model_selection import PredefinedSplit

    splits = PredefinedSplit(fold.numpy())
    theirs = LogisticRegressionCV(Cs=list(INVERSE_PENALTIES), cv=splits, max_iter=1000, n_jobs=1)
    start = time.perf_counter()
    theirs.fit(train.numpy(), labels.numpy())
    seconds = time.perf_counter() - start
    chosen = float(torch.as_tensor(theirs.C_).flatten()[0])
    return seconds, chosen, torch.as_tensor(theirs.coef_), torch.as_tensor(theirs.intercept_)


def converged(train: Tensor, labels: Tensor, c: float) -> tuple[float, Tensor, Tensor]:
    """Seconds, weights and biases of one fit in float64 at C = ``c``, until the gradient is below 1e-8."""
    from sklearn.linear_model import LogisticRegression

    start = time.perf_counter()
    theirs = LogisticRegression(C=c, tol=1e-8, max_iter=20_000).fit(train.double().numpy(), labels.numpy())
    seconds = time.perf_counter() - start
    return seconds, torch.as_tensor(theirs.coef_), torch.as_tensor(theirs.intercept_)


def linear_line(
    name: str, prefix: str, seconds: float, c: float, weight: Tensor, bias: Tensor, train: Tensor, test: Tensor
) -> dict[str, float]:
    """Print and return what one classifier took and reached; labels are those of the drawn rows."""
    _, labels = drawn(len(train), 1)
    _, wanted = drawn(len(test), 2)
    logits = test.double() @ weight.double().T + bias.double()
    accuracy = 100 * float((logits.argmax(dim=1) == wanted).double().mean())
    reached = objective(train, labels, weight, bias, c)
    print(f"  {name:28s} {seconds:7.1f} s, {accuracy:.2f} %, C = {c:g}, objective {reached:.6f}")
    figures = {"seconds": seconds, "accuracy": accuracy, "inverse_penalty": c, "objective": reached}
    return {f"{prefix}{key}": value for key, value in figures.items()}


def judge(times: dict[str, float], memory: float, linear: dict[str, float]) -> list[Bar]:
    bare = times["bare products + top-k"]
    bars = [
        Bar("knn-vs-bare-products-and-topk", times["Eigenview"] / bare, 1.3, at_most=True),
        Bar("knn-extra-MB", memory, 1000, at_most=True),
    ]
    if "faiss IndexFlatIP" in times:
        gain = times["faiss IndexFlatIP"] / times["Eigenview"]
        bars.append(Bar("knn-faster-than-faiss-IndexFlatIP", gain, 1.0, at_most=False))
    if "sklearn_seconds" in linear:
        ahead = linear["accuracy"] - linear["sklearn_accuracy"]
        gap = abs(linear["accuracy"] - linear["converged_accuracy"])
        bars += [
            Bar("linear-faster-than-sklearn-CV", linear["sklearn_seconds"] / linear["seconds"], 5.0, at_most=False),
            Bar("linear-points-from-converged-sklearn", gap, 0.1, at_most=True),
            Bar("linear-points-over-default-sklearn-CV", ahead, -0.1, at_most=False),
        ]
    return bars


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--rounds", type=int, default=3, help="the best of so many rounds counts")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, one round; figures mean little")
    parser.add_argument("--skip-sklearn", action="store_true", help="leave LogisticRegressionCV out: it takes minutes")
    parser.add_argument("--memory", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    part, rounds = (QUICK, 1) if options.quick else (1, options.rounds)
    if options.memory:
        measure_memory(part)
        return
    load = os.getloadavg()[0]
    print(f"load of the machine before: {load:.1f} on {os.cpu_count()} cores")
    times, memory = compare_neighbours(rounds, part), extra_memory(part)
    print(f"  extra memory of Eigenview {memory:.0f} MB")
    linear = compare_linear(1, part, not options.skip_sklearn)
    measured = {"knn": times, "knn_extra_MB": memory, "linear": linear, "load_before": load}
    finish(judge(times, memory, linear), measured, options.json)


if __name__ == "__main__":
    main()

"""Logistic regression against scikit-learn's optimum, and a selection that never sees what it must not see."""

from __future__ import annotations

import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch.nn.functional import cross_entropy

from eigenview.errors import DataError, SettingError
from eigenview.evaluation import fit_logistic, linear, logistic
from eigenview.evaluation.lbfgs import minimise
from eigenview.evaluation.linear import select_logistic, stratified_folds
from eigenview.evaluation.logistic import LogisticProblems


def digits(classes: int = 10) -> tuple[Tensor, Tensor]:
    images, labels = load_digits(return_X_y=True)
    features, numbers = torch.from_numpy(images) / 16, torch.from_numpy(labels)
    return features[numbers < classes], numbers[numbers < classes]


def objective(features, labels, weight, bias, c):
    return float(cross_entropy(features @ weight.T + bias, labels, reduction="sum") + weight.square().sum() / (2 * c))


def reference(features, labels, c):
    return LogisticRegression(C=c, tol=1e-8, max_iter=5000).fit(features.numpy(), labels.numpy())


def test_several_problems_are_minimised_at_once():
    generator = torch.Generator().manual_seed(0)
    roots = torch.randn(3, 5, 5, dtype=torch.float64, generator=generator)
    matrices = roots @ roots.mT + 0.1 * torch.eye(5, dtype=torch.float64)
    wanted = torch.randn(3, 5, dtype=torch.float64, generator=generator)

    def quadratic(problems, points):
        away = points - wanted[problems]
        slopes = (matrices[problems] @ away[:, :, None])[:, :, 0]
        return (away * slopes).sum(dim=1) / 2, slopes

    minimum = minimise(quadratic, torch.zeros_like(wanted), tolerance=1e-9)
    assert torch.allclose(minimum.parameters, wanted, atol=1e-7)
    assert (minimum.slopes <= 1e-9).all()


def test_a_guess_at_the_curvature_saves_iterations_and_changes_no_minimum():
    generator = torch.Generator().manual_seed(0)
    scales = torch.logspace(-1, 1.5, 40, dtype=torch.float64)
    wanted = torch.randn(2, 40, dtype=torch.float64, generator=generator)

    class Guess:
        def renew(self, points):
            self.inverse = 0.7 / scales

        def solve(self, problems, slopes):
            return slopes * self.inverse

    def quadratic(problems, points):
        away = points - wanted[problems]
        return (scales * away.square()).sum(dim=1) / 2, scales * away

    told = []
    plain = minimise(quadratic, torch.zeros_like(wanted), tolerance=1e-9)
    guided = minimise(quadratic, torch.zeros_like(wanted), tolerance=1e-9, curvature=Guess(), advance=told.append)
    assert plain.is_converged.all()
    assert guided.is_converged.all()
    assert torch.allclose(plain.parameters, wanted, atol=1e-5)
    assert torch.allclose(guided.parameters, wanted, atol=1e-7)
    assert guided.iterations <= 3 < plain.iterations
    assert sum(told) == 2
    short = minimise(quadratic, torch.zeros_like(wanted), tolerance=1e-9, iterations=3)
    assert not short.is_converged.any()


def test_the_gradient_is_that_of_the_stated_objective():
    features, labels = digits(4)
    features, labels = features[:90], labels[:90]
    fold = stratified_folds(labels, 3)
    problems = LogisticProblems(features, labels, fold, 3, 4)
    problems.penalise(0.7)
    generator = torch.Generator().manual_seed(1)
    flat = torch.randn(4, 65 * 4, dtype=torch.float64, generator=generator, requires_grad=True)
    values, slopes = problems(torch.arange(4), flat.detach())
    expected = []
    for number, (weight, bias) in enumerate(zip(*problems.split(flat), strict=True)):
        kept = fold != number
        loss = cross_entropy((features[kept] - features.mean(dim=0)) @ weight.T + bias, labels[kept])
        expected.append(loss + weight.square().sum() / (2 * 0.7 * int(kept.sum())))
    assert torch.allclose(values, torch.stack(expected))
    assert torch.allclose(slopes, torch.autograd.grad(sum(expected), flat)[0], atol=1e-10)


@pytest.mark.parametrize("c", [1e-3, 0.1, 10.0])
def test_real_digits_reach_scikit_learns_optimum(c):
    features, labels = digits()
    theirs, ours = reference(features, labels, c), fit_logistic(features, labels, inverse_penalty=c)
    weight, bias = torch.from_numpy(theirs.coef_), torch.from_numpy(theirs.intercept_)
    assert objective(features, labels, ours.weight, ours.bias, c) <= objective(features, labels, weight, bias, c) + 1e-7
    assert torch.allclose(ours.weight, weight, atol=1e-3 * float(weight.abs().max()))


def test_two_classes_follow_scikit_learns_single_weight_vector():
    features, labels = digits(2)
    theirs, ours = reference(features, labels, 0.5), fit_logistic(features, labels, inverse_penalty=0.5)
    assert torch.allclose(ours.weight[1] - ours.weight[0], torch.from_numpy(theirs.coef_[0]), atol=1e-4)
    assert ours.bias[1] - ours.bias[0] == pytest.approx(float(theirs.intercept_[0]), abs=1e-4)


def test_selection_equals_a_fit_for_every_fold_and_penalty():
    features, labels = digits()
    features, labels = features[:600], labels[:600]
    fold = stratified_folds(labels, 3, seed=4)
    selection = select_logistic(features, labels, inverse_penalties=(0.1, 1e-3, 10.0), folds=fold)
    assert selection.inverse_penalties == (1e-3, 0.1, 10.0)
    for row, c in enumerate(selection.inverse_penalties):
        for number in range(3):
            kept = fold != number
            theirs = reference(features[kept], labels[kept], c)
            accuracy = theirs.score(features[~kept].numpy(), labels[~kept].numpy())
            assert selection.fold_accuracy[row, number] == pytest.approx(accuracy, abs=1e-9)
    best = selection.inverse_penalties[int(selection.fold_accuracy.mean(dim=1).argmax())]
    assert selection.inverse_penalty == best
    alone = fit_logistic(features, labels, inverse_penalty=best)
    assert torch.allclose(selection.classifier.weight, alone.weight, atol=1e-4)


def test_single_precision_agrees_with_double():
    features, labels = digits()
    single, double = select_logistic(features.float(), labels), select_logistic(features, labels)
    assert single.inverse_penalty == double.inverse_penalty
    assert torch.allclose(single.fold_accuracy, double.fold_accuracy, atol=0.01)
    agreement = (single.classifier.predict(features.float()) == double.classifier.predict(features)).double().mean()
    assert agreement > 0.995


def test_shifted_and_turned_features_get_the_same_classes():
    features, labels = digits()
    features, labels = features[:500], labels[:500]
    turn = torch.linalg.qr(torch.randn(64, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(5))).Q
    plain, turned = fit_logistic(features, labels), fit_logistic(features @ turn + 3, labels)
    assert torch.allclose(plain.logits(features), turned.logits(features @ turn + 3), atol=1e-3)


def test_constant_and_duplicate_columns_do_no_harm():
    features, labels = digits(3)
    padded = torch.cat([features, features, torch.ones(len(features), 2, dtype=torch.float64)], dim=1)
    plain, wide = fit_logistic(features, labels, inverse_penalty=2.0), fit_logistic(padded, labels)
    assert torch.allclose(plain.logits(features), wide.logits(padded), atol=1e-3)  # two copies halve the penalty
    single = fit_logistic(padded.float() * 100, labels, inverse_penalty=1e4)  # nearly no penalty on a singular matrix
    assert (single.predict(padded.float() * 100) == labels).all()


def test_fewer_rows_than_columns_reach_the_same_optimum():
    features, labels = digits(4)
    features, labels = features[:40], labels[:40]
    theirs, ours = reference(features, labels, 0.3), fit_logistic(features, labels, inverse_penalty=0.3)
    assert torch.allclose(ours.weight, torch.from_numpy(theirs.coef_), atol=1e-4)
    wanted = torch.from_numpy(theirs.intercept_)
    assert torch.allclose(ours.bias - ours.bias.mean(), wanted - wanted.mean(), atol=1e-4)


def test_more_columns_than_a_hessian_may_have_reach_the_same_optimum(monkeypatch):
    monkeypatch.setattr(logistic, "WIDEST", 30)  # the digits' 64 columns are then wide
    monkeypatch.setattr(logistic, "SAMPLE", 25)
    features, labels = digits(5)
    for count in (60, 400):  # fewer rows than columns, and more
        rows, wanted = features[:count], labels[:count]
        theirs, ours = reference(rows, wanted, 0.3), fit_logistic(rows, wanted, inverse_penalty=0.3)
        assert ours.is_converged
        assert torch.allclose(ours.weight, torch.from_numpy(theirs.coef_), atol=1e-4)


def rare_columns(rows: int = 3000, columns: int = 64) -> tuple[Tensor, Tensor]:
    """Features that are zero but for few rows and large there, as an untrained encoder's can be, standardised."""
    generator = torch.Generator().manual_seed(0)
    mixed = torch.randn(rows, 12, generator=generator) @ torch.randn(12, columns, generator=generator)
    rest = torch.relu(mixed / mixed.std(dim=0) - 1.0 - 2.2 * torch.rand(columns, generator=generator)).double()
    features = (rest - rest.mean(dim=0)) / rest.std(dim=0)
    labels = (mixed[:, :6] + 3 * torch.randn(rows, 6, generator=generator)).argmax(dim=1)
    return features, labels


def test_rare_columns_do_not_take_endless_iterations():
    features, labels = rare_columns()
    selection = select_logistic(features.float(), labels)
    assert selection.iterations < 330  # 459 when pairs were forgotten with every look at the Hessian
    assert selection.unfinished == 0
    assert selection.classifier.is_converged
    c = selection.inverse_penalty
    theirs = reference(features, labels, c)
    best = objective(features, labels, torch.from_numpy(theirs.coef_), torch.from_numpy(theirs.intercept_), c)
    ours = objective(features, labels, selection.classifier.weight.double(), selection.classifier.bias.double(), c)
    assert ours - best < 3e-6 * len(features)


def test_a_fit_that_ran_out_of_iterations_says_so(monkeypatch):
    features, labels = digits(4)
    monkeypatch.setitem(linear.ITERATIONS, torch.float64, 2)
    selection = select_logistic(features, labels, inverse_penalties=(1e-4, 10.0), folds=3)
    assert not selection.classifier.is_converged
    assert 4 <= selection.unfinished <= 8
    assert not fit_logistic(features, labels).is_converged


def test_every_fit_is_told_of():
    features, labels = digits(4)
    told = []
    select_logistic(features, labels, inverse_penalties=(1e-3, 0.1), folds=3, advance=told.append)
    assert sum(told) == 2 * (3 + 1)
    told.clear()
    fit_logistic(features, labels, advance=told.append)
    assert told == [1]


def test_folds_hold_every_class_evenly_and_follow_their_seed():
    _, labels = digits()
    fold = stratified_folds(labels, 5, seed=1)
    table = torch.stack([torch.bincount(labels[fold == number], minlength=10) for number in range(5)])
    assert int((table.amax(dim=0) - table.amin(dim=0)).max()) <= 1
    assert torch.equal(fold, stratified_folds(labels, 5, seed=1))
    assert not torch.equal(fold, stratified_folds(labels, 5, seed=2))


def test_bad_input_is_refused_with_its_reason():
    features, labels = digits(3)
    with pytest.raises(DataError, match="labels hold one class only, 1"):
        fit_logistic(features, torch.ones_like(labels))
    with pytest.raises(DataError, match="5 folds need 5 rows of every class; class 7 has fewer"):
        select_logistic(features, torch.where(torch.arange(len(labels)) < 3, 7, labels))
    with pytest.raises(DataError, match="class 2 is missing in training without fold 1"):
        select_logistic(features, labels, folds=torch.where(labels == 2, 1, torch.arange(len(labels)) % 2 * 2))
    with pytest.raises(DataError, match="class 2 is missing in training"):
        fit_logistic(features, torch.where(labels == 2, 3, labels))
    with pytest.raises(DataError, match=r"features must be finite; NaN or Inf in 1 of \d+ rows, first 4"):
        select_logistic(features.index_fill(0, torch.tensor([4]), torch.inf), labels)
    with pytest.raises(DataError, match="which means unlabelled"):
        select_logistic(features, labels - 1)
    with pytest.raises(SettingError, match="an inverse penalty must be positive and finite; got 0"):
        fit_logistic(features, labels, inverse_penalty=0)
    with pytest.raises(SettingError, match="at least 2 folds; got 1"):
        select_logistic(features, labels, folds=1)

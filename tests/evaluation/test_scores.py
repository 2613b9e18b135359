"""Scores: honest intervals, fair comparisons, and few labels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.datasets import load_digits

from eigenview.errors import DataError, SettingError
from eigenview.evaluation import LabelDraws, Origin, TrainTest, compare, few_label_accuracy, mean_score, over_repeats
from eigenview.evaluation.few_label import draw_labels, fit_draws
from eigenview.evaluation.scores import mean_interval, subsample_interval
from eigenview.evaluation.similarity import contingency, normalised_mutual_information
from eigenview.graph.clustering import adjusted_rand_index


def score(items, subject="run", **changes):
    settings = {"name": "knn", "metric": "accuracy", "protocol": {"k": 5}}
    origin = Origin(subject, changes.pop("data", {"test": "abc"}))
    return mean_score(torch.as_tensor(items, dtype=torch.float64), origin, **(settings | changes))


def coin(chance, count=400, seed=0):
    return (np.random.default_rng(seed).random(count) < chance).astype(float)


def test_the_interval_is_that_of_a_proportion():
    scored = score(coin(0.8, 2000))
    normal = 1.96 * np.sqrt(scored.value * (1 - scored.value) / 2000)
    assert scored.interval[0] == pytest.approx(scored.value - normal, abs=0.004)
    assert scored.interval[1] == pytest.approx(scored.value + normal, abs=0.004)


def test_nearly_all_intervals_hold_the_truth():
    held = [low <= 0.7 <= high for low, high in (score(coin(0.7, 300, seed)).interval for seed in range(60))]
    assert sum(held) >= 53


def test_draws_have_students_interval():
    values = np.array([0.5, 0.6, 0.7, 0.65])
    mean, low, high = mean_interval(values)
    expected = stats.t.interval(0.95, 3, loc=values.mean(), scale=stats.sem(values))
    assert (mean, low, high) == pytest.approx((values.mean(), *expected))


def test_pairing_is_mcnemars_exact_test():
    a, b = coin(0.7), coin(0.75, seed=1)
    compared = compare(score(a), score(b, "other"))[1]
    wins, losses = int((b > a).sum()), int((b < a).sum())
    assert compared.p_value == pytest.approx(stats.binomtest(wins, wins + losses).pvalue)
    assert compared.difference == pytest.approx(b.mean() - a.mean())
    assert compared.interval[0] < compared.difference < compared.interval[1]


def test_continuous_items_are_paired_by_a_t_test():
    random = np.random.default_rng(3)
    a = random.random(200)
    b = a + random.normal(0.01, 0.02, 200)
    compared = compare(score(a, metric="mse"), score(b, "other", metric="mse"))[1]
    assert compared.p_value == pytest.approx(stats.ttest_rel(a, b).pvalue, rel=1e-3)


def test_equal_scores_do_not_differ():
    assert compare(score(coin(0.7)), score(coin(0.7), "other"))[1].p_value == 1


def test_protocols_and_data_are_never_mixed():
    first = score(coin(0.7))
    with pytest.raises(SettingError, match="different protocols cannot be compared: k is 5 and 20"):
        compare(first, score(coin(0.7), "other", protocol={"k": 20}))
    with pytest.raises(SettingError, match="different protocols"):
        compare(first, score(coin(0.7), "other", metric="recall"))
    with pytest.raises(SettingError, match="different data cannot be compared: run and other"):
        compare(first, score(coin(0.7), "other", data={"test": "xyz"}))
    with pytest.raises(SettingError, match="at least two scores; got 1"):
        compare(first)
    assert compare(first, replace(first, encoder="another", seed=3, subject="other"))[1].difference == 0
    named = replace(first, data={**first.data, "set": "what people call it"}, subject="other")
    assert compare(first, named)[1].difference == 0


def test_the_nearest_of_few_labels_is_the_plain_nearest_neighbour():
    from sklearn.neighbors import KNeighborsClassifier

    generator = torch.Generator().manual_seed(0)
    train, test = (torch.randn(60, 5, generator=generator, dtype=torch.float64) for _ in range(2))
    labels = torch.arange(60) % 4
    given = TrainTest(train, labels, test, labels)
    measured = few_label_accuracy(given, LabelDraws(3, 4, seed=7), classifier="nearest")
    for draw, accuracy in enumerate(measured.draws):
        chosen = draw_labels(labels, 3, seed=7 + draw)
        oracle = KNeighborsClassifier(1, metric="cosine").fit(train[chosen], labels[chosen])
        assert accuracy == pytest.approx(oracle.score(test, labels))


@pytest.mark.parametrize(("columns", "per_class", "classes"), [(80, 2, 4), (5, 9, 4), (30, 3, 2)])
def test_all_draws_at_once_are_scikit_learns_fits(columns, per_class, classes):
    """With fewer rows than columns, with more, and with two classes; labels that nobody has are left out."""
    from sklearn.linear_model import LogisticRegression

    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(120) % classes * 3
    train, test = (
        torch.randn(120, columns, generator=generator, dtype=torch.float64) + 0.3 * labels[:, None] for _ in range(2)
    )
    chosen = torch.stack([draw_labels(labels, per_class, seed=draw) for draw in range(3)])
    told = []
    fitted = fit_draws(train, labels, chosen, inverse_penalty=0.5, advance=told.append)
    assert fitted.is_converged.all()
    assert sum(told) == 3
    predicted = fitted.predict(test)
    for draw, rows in enumerate(chosen):
        oracle = LogisticRegression(C=0.5, tol=1e-9, max_iter=5000).fit(train[rows], labels[rows])
        assert predicted[draw].tolist() == oracle.predict(test).tolist()
        weight = fitted.weight[draw, 1:] - fitted.weight[draw, :1]
        wanted = torch.from_numpy(oracle.coef_ if classes == 2 else oracle.coef_[1:] - oracle.coef_[:1])
        assert torch.allclose(weight, wanted, atol=1e-4)
    given = TrainTest(train, labels, test, labels)
    result = few_label_accuracy(given, LabelDraws(per_class, 3), inverse_penalty=0.5)
    assert result.draws == pytest.approx([(row == labels).double().mean().item() for row in predicted])
    assert result.unfinished == 0


def test_few_labels_of_wide_single_precision_features_agree_with_double_ones():
    images, labels = (torch.from_numpy(values) for values in load_digits(return_X_y=True))
    wide = torch.cat([images / 16, torch.zeros(len(images), 500)], dim=1)
    given = (TrainTest(rows[:900], labels[:900], rows[900:], labels[900:]) for rows in (wide.float(), wide))
    single, double = (few_label_accuracy(rows, LabelDraws(3, 5)) for rows in given)
    assert single.draws == pytest.approx(double.draws, abs=0.003)


def test_few_labels_are_drawn_evenly_and_improve_with_their_number():
    images, labels = (torch.from_numpy(array) for array in load_digits(return_X_y=True))
    train, test = (images[:1000] / 16, labels[:1000]), (images[1000:] / 16, labels[1000:])
    given = TrainTest(*train, *test)
    few, more = (few_label_accuracy(given, LabelDraws(count, 6)) for count in (1, 10))
    assert more.accuracy > few.accuracy + 0.1
    assert few.interval[0] < few.accuracy < few.interval[1]
    assert few.items.mean() == pytest.approx(few.accuracy)
    assert few.draws == few_label_accuracy(given, LabelDraws(1, 6)).draws
    chosen = draw_labels(labels, 4, seed=2)
    assert labels[chosen].bincount().tolist() == [4] * 10
    with pytest.raises(SettingError, match="logistic or nearest; got 'svm'"):
        few_label_accuracy(given, LabelDraws(1), classifier="svm")
    with pytest.raises(DataError, match=r"500 labels a class were asked for; class 0, 1, 2, 3, 4, … has fewer"):
        few_label_accuracy(given, LabelDraws(500))
    kept = train[1] != 3
    with pytest.raises(DataError, match="class 3 of the test labels never occur in training"):
        TrainTest(train[0][kept], train[1][kept], *test)


def test_a_mean_over_seeds_has_students_interval_and_pairs_seed_by_seed():
    runs = [[replace(score(coin(chance, seed=seed)), seed=seed) for seed in range(4)] for chance in (0.7, 0.8)]
    first, second = (over_repeats(scores, over="seeds", subject=name) for name, scores in zip("ab", runs, strict=True))
    values = [scored.value for scored in runs[0]]
    expected = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
    assert (first.value, *first.interval) == pytest.approx((np.mean(values), *expected))
    compared = compare(first, second)[1]
    assert compared.p_value == pytest.approx(stats.ttest_rel(first.items, second.items).pvalue)
    with pytest.raises(SettingError, match="different protocols cannot be compared: mean over is 4 seeds and None"):
        compare(first, score(coin(0.7)))
    with pytest.raises(SettingError, match="only scores of one protocol and data have a mean over seeds"):
        over_repeats([runs[0][0], replace(runs[0][1], protocol={"k": 7})], over="seeds")
    with pytest.raises(SettingError, match="at least two scores; got 1"):
        over_repeats(runs[0][:1], over="seeds")


@pytest.mark.parametrize("measure", [normalised_mutual_information, adjusted_rand_index])
def test_intervals_of_agreement_hold_their_value_and_cover_the_truth(measure):
    """60 items in ten groups that agree in six of ten: the bootstrap's interval held the truth in 57 % (NMI)."""
    random, values, intervals = np.random.default_rng(0), [], []
    for trial in range(120):
        labels = random.integers(10, size=60)
        groups = np.where(random.random(60) < 0.6, labels, random.integers(10, size=60))
        both = torch.from_numpy(groups), torch.from_numpy(labels)

        def statistic(index, both=both):
            chosen = torch.from_numpy(np.asarray(index))
            return measure(contingency(both[0][chosen], both[1][chosen]))

        values.append(statistic(np.arange(60)))
        intervals.append(subsample_interval(statistic, 60, draws=60, seed=trial))
    assert all(low <= value <= high for value, (low, high) in zip(values, intervals, strict=True))
    truth = np.mean(values)
    covered = np.mean([low <= truth <= high for low, high in intervals])
    assert 0.88 <= covered <= 0.99


def test_intervals_of_agreement_stay_within_what_is_possible():
    labels = torch.arange(40) % 4
    groups = torch.where(torch.arange(40) < 38, labels, (labels + 1) % 4)

    def interval(count, **options):
        return subsample_interval(
            lambda index: adjusted_rand_index(contingency(groups[index], labels[index])), count, draws=100, **options
        )

    assert interval(40)[1] > 1
    assert interval(40, limits=(-0.5, 1.0)) == (interval(40)[0], 1.0)
    assert interval(2, limits=(-0.5, 1.0)) == (-0.5, 1.0)  # two items tell nothing


def test_a_handful_of_items_has_the_jackknifes_interval():
    values = np.array([0.2, 0.9, 0.4, 0.7, 0.1])
    low, high = subsample_interval(lambda index: float(values[index].mean()), 5, draws=4000)
    expected = stats.t.interval(0.95, 4, loc=values.mean(), scale=stats.sem(values))
    assert (low, high) == pytest.approx(expected, rel=0.06)  # of a mean, one left out at a time is Student's own

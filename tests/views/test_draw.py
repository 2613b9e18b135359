import numpy as np
import pytest
from scipy import stats

from eigenview.views.parameters import uniforms, view_keys
from tests.processes import run_processes
from tests.views import oracle

ITEMS = np.arange(4000)


def draw(seed=3, epoch=5, items=ITEMS, views=(0, 1), slots=8):
    return uniforms(view_keys(seed, epoch, np.asarray(items, dtype=np.int64), list(views)), 0, slots)


def test_numbers_equal_the_hash_written_with_python_integers():
    items = [0, 1, 7, 2**40]
    for seed, epoch in ((0, 0), (12345, 3), (-1, 10**6), (2**63 + 5, 1)):
        numbers = draw(seed, epoch, items, (0, 9), 4)
        expected = [
            [[oracle.uniform(seed & oracle.MASK, epoch, item, view, slot) for slot in range(4)] for item in items]
            for view in (0, 9)
        ]
        np.testing.assert_array_equal(numbers, np.array(expected))


def test_numbers_are_uniform_in_every_direction():
    numbers = draw()
    assert numbers.min() >= 0
    assert numbers.max() < 1
    assert stats.kstest(numbers.ravel(), "uniform").pvalue > 1e-3
    assert min(stats.kstest(numbers[0, :, slot], "uniform").pvalue for slot in range(8)) > 1e-4
    over_epochs = np.array([draw(epoch=epoch, items=[17])[0, 0, 0] for epoch in range(2000)])
    over_seeds = np.array([draw(seed=seed, items=[17])[0, 0, 0] for seed in range(2000)])
    over_views = draw(items=[17], views=range(2000))[:, 0, 0]
    for numbers in (over_epochs, over_seeds, over_views):
        assert stats.kstest(numbers, "uniform").pvalue > 1e-3


def test_numbers_of_different_slots_views_epochs_items_and_seeds_are_independent():
    here = draw()
    pairs = {
        "slot": (here[0, :, 0], here[0, :, 1]),
        "view": (here[0, :, 0], here[1, :, 0]),
        "epoch": (here[0, :, 0], draw(epoch=6)[0, :, 0]),
        "seed": (here[0, :, 0], draw(seed=4)[0, :, 0]),
        "item": (here[0, :-1, 0], here[0, 1:, 0]),
    }
    for name, (first, second) in pairs.items():
        table = np.histogram2d(first, second, bins=8, range=[[0, 1], [0, 1]])[0]
        assert stats.chisquare(table.ravel()).pvalue > 1e-4, name
        assert abs(np.corrcoef(first, second)[0, 1]) < 0.06, name


def test_no_two_of_a_million_numbers_are_the_same():
    numbers = draw(items=np.arange(125_000), views=(0,))
    assert len(np.unique(numbers)) == numbers.size


def test_an_items_numbers_do_not_depend_on_its_neighbours():
    everyone = draw(items=np.arange(50))
    some = draw(items=[31, 2, 31])
    np.testing.assert_array_equal(some, everyone[:, [31, 2, 31]])
    np.testing.assert_array_equal(draw(items=[4], views=(1,))[0], everyone[1, [4]])


def test_a_slot_does_not_depend_on_which_slots_are_asked_for():
    keys = view_keys(1, 2, np.arange(10), [0])
    np.testing.assert_array_equal(uniforms(keys, 5, 3), uniforms(keys, 0, 8)[..., 5:])


def draw_in_process(rank, group, seed):
    return draw(seed, items=np.arange(20))


def test_other_processes_draw_the_same_numbers():
    for numbers in run_processes(2, draw_in_process, 11):
        np.testing.assert_array_equal(numbers, draw(11, items=np.arange(20)))


@pytest.mark.parametrize("slot", [0, 31, 48])
def test_one_number_stays_what_it_was(slot):
    """A changed hash changes every run that anyone wants to repeat."""
    known = {0: 0.47141042966848024, 31: 0.33340917384120006, 48: 0.18692035920752714}
    assert uniforms(view_keys(0, 0, np.arange(1), [0]), slot, 1)[0, 0, 0] == pytest.approx(known[slot], abs=1e-15)

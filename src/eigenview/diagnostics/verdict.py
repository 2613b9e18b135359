"""From figures to plain words: what is wrong, by which figures, and what to try."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from eigenview.diagnostics.figures import Figures, Finding


@dataclass(frozen=True)
class Thresholds:
    """The one table. Set on trained runs, checked on others: docs/diagnostics.md has both, and what they leave open.

    Features before a head, judged around their mean, have their own limits for rank, crowding and disagreement.
    """

    collapsed_cosine: float = 0.95  # full collapse: the mean cosine of two rows is above
    collapsed_features: float = 0.99  # the same for features, which after a ReLU point the same way anyhow
    rank_share: float = 0.09  # dimensional collapse: effective rank / usable dimensions is below
    rank_share_of_features: float = 0.25
    usable_dimensions: int = 512  # more dimensions than these, or than rows − 1, are not asked to be used
    dead_share: float = 0.05  # dead dimensions: their share is above
    chance_margin: float = 0.036  # at chance: the loss is above chance − margin · |chance|, and below chance + |chance|
    crowding: float = 0.85  # crowded: 1 − uniformity/floor is above (0 uniform, 1 a point)
    crowding_of_features: float = 0.5
    disagreement: float = 0.8  # views disagree: alignment / that of unrelated items is above
    disagreement_of_features: float = 0.7
    matched_captions: float = 20.0  # words apart: images that find their own caption first, in times chance, below
    fewest_captions: int = 400  # that differ, for words to be judged by
    identical: float = 0.02  # views identical: the same ratio is below
    duplicates: float = 0.02  # duplicated data: the share of rows with a near-duplicate, less 2 × by chance, is above
    skewness: float = 4.0  # hubs: the skewness of the 10-occurrence is above
    usage: float = 0.5  # prototypes unused: the normalised entropy of their usage is below
    begun_steps: int = 500  # barely begun: fewer optimizer steps
    begun_epochs: float = 10  # or fewer epochs than these …
    settled_steps: int = 2000  # … and fewer steps than these
    begun_share: float = 0.1  # or a smaller share of the planned length
    begun_matched: float = 0.5  # but not where views already find each other in this share of rows, or more
    still_falling: float = 0.15  # of the whole fall of the loss, made in the last quarter: said, not decided by


THRESHOLDS = Thresholds()

EXPLAINS = {
    "full collapse": (
        "words apart",
        "dimensional collapse",
        "views disagree",
        "views identical",
        "crowded",
        "duplicated data",
        "dead dimensions",
        "hubs",
    ),
    "dimensional collapse": ("crowded", "duplicated data", "hubs"),  # few directions: rows are close whatever they are
}


def judge(figures: Figures, thresholds: Thresholds = THRESHOLDS) -> tuple[Finding, ...]:
    """What is wrong, the gravest first; empty when healthy. What merely follows from a graver finding is left out."""
    said = {rule.__name__.replace("_", " "): tuple(rule(figures, thresholds)) for rule in RULES}
    findings = [Finding(name, lines[:-1], lines[-1]) for name, lines in said.items() if lines]
    explained = {name for finding in findings for name in EXPLAINS.get(finding.name, ())}
    return tuple(finding for finding in findings if finding.name not in explained)


# Each rule is called as its finding is. Where that is the case, it gives the reasons, and last what to try.


def diverged(figures: Figures, limits: Thresholds) -> Iterator[str]:
    if figures.has_diverged:
        yield "the loss became NaN or infinite, and training stopped; the figures are those of an earlier checkpoint"
        yield "lower the learning rate, add warm-up, or use precision 32; then go on from the last checkpoint"


def full_collapse(figures: Figures, limits: Thresholds) -> Iterator[str]:
    if figures.is_centred or figures.mean_cosine <= limits.collapsed_cosine:
        return
    yield f"two rows have a mean cosine of {figures.mean_cosine:.4f} (limit {limits.collapsed_cosine:g})"
    yield f"uniformity is {figures.uniformity}, where 0 is a single point and the floor is {figures.floor:.3g}"
    yield (
        "every input gets nearly the same embedding. Bring back what keeps rows apart: negatives, a predictor with "
        "stop-gradient, Sinkhorn or batch normalisation; lower the learning rate; check that inputs differ"
    )


def at_chance(figures: Figures, limits: Thresholds) -> Iterator[str]:
    if figures.loss is None or figures.chance is None:
        return
    size = abs(figures.chance)
    if -limits.chance_margin * size <= figures.loss - figures.chance <= size:  # far above: another scale, not chance
        yield f"the loss is {figures.loss:.4g}, on constant embeddings it is {figures.chance:.4g}"
        yield (
            "nothing was learnt that the objective can see. Lower the temperature, change the learning rate (both "
            "ways), check that positives are views of the same item and that gradients reach the encoder"
        )


def dimensional_collapse(figures: Figures, limits: Thresholds) -> Iterator[str]:
    usable = min(figures.d, figures.n - 1, limits.usable_dimensions)
    share = figures.effective_rank_centred / usable
    limit = limits.rank_share_of_features if figures.is_centred else limits.rank_share
    if usable < 4 or share >= limit:  # a share of fewer dimensions says little
        return
    yield (
        f"the effective rank around the mean is {figures.effective_rank_centred:.1f}, {share:.0%} of {usable} usable "
        f"dimensions (limit {limit:.0%})"
    )
    yield f"stable rank {figures.stable_rank:.1f}, {len(figures.dead)} of {figures.d} dimensions dead"
    yield (
        "a few directions hold everything. Weaken augmentations that erase content, lower the temperature, add "
        "negatives or a uniformity term, use a head and evaluate before it"
    )


def crowded(figures: Figures, limits: Thresholds) -> Iterator[str]:
    limit = limits.crowding_of_features if figures.is_centred else limits.crowding
    if figures.crowding <= limit:
        return
    yield (
        f"uniformity is {figures.uniformity}; its floor in {figures.d} dimensions is {figures.floor:.3g}: "
        f"{figures.crowding:.0%} of the way to a single point (limit {limit:.0%})"
    )
    yield f"two rows have a mean cosine of {figures.mean_cosine:.3f}"
    yield (
        "rows cover a small part of the sphere. Judge features before a head around their mean (eigenview diagnose RUN "
        "--where features); for embeddings, train longer, lower the temperature or weigh uniformity more"
    )


def views_disagree(figures: Figures, limits: Thresholds) -> Iterator[str]:
    views = figures.views
    limit = limits.disagreement_of_features if figures.is_centred else limits.disagreement
    if views is not None and views.disagreement > limit:
        yield f"positives are {views.disagreement:.0%} as far apart as unrelated items (limit {limit:.0%})"
        yield f"{views.matched} of rows find their other view first"
        yield "check that row i of both views is the same item; otherwise train longer or weaken the augmentations"


def words_apart(figures: Figures, limits: Thresholds) -> Iterator[str]:
    words = figures.modalities
    if words is None or words.matched is None or words.distinct < limits.fewest_captions:
        return
    if words.matched.high * words.distinct >= limits.matched_captions:
        return
    yield (
        f"{words.matched.in_percent} of images find their own caption first among {words.distinct:,}, "
        f"{words.matched.value * words.distinct:.3g} times chance (limit {limits.matched_captions:g})"
    )
    yield (
        f"the means of both sides are {words.gap:.3g} apart (the modality gap): {words.gap_share:.0%} of the mean "
        "squared distance of an image to its caption"
    )
    yield "check that captions belong to their images; train longer, with larger batches or a lower first temperature"


def views_identical(figures: Figures, limits: Thresholds) -> Iterator[str]:
    views = figures.views
    if views is not None and views.disagreement < limits.identical:
        times = f"{views.disagreement:.2g} times"
        yield f"positives are {times} as far apart as unrelated items (limit {limits.identical:g})"
        yield (
            "the two views hardly differ, so telling items apart is trivial. Strengthen the augmentations; check that "
            "two different views were embedded"
        )


def duplicated_data(figures: Figures, limits: Thresholds) -> Iterator[str]:
    if figures.duplicates.low <= limits.duplicates + 2 * figures.duplicates_by_chance:
        return
    pairs = ", ".join(f"{first} and {second}" for first, second in figures.duplicate_pairs[:3])
    yield (
        f"{figures.duplicates.in_percent} of rows have a near-duplicate (limit {100 * limits.duplicates:g} %; "
        f"{100 * figures.duplicates_by_chance:.2g} % by chance), such as rows {pairs}"
    )
    yield (
        "see which are copies of one picture (eigenview duplicates, which confirms each on its pixels): copies are "
        "negatives of themselves, and across splits they leak"
    )


def hubs(figures: Figures, limits: Thresholds) -> Iterator[str]:
    hubness = figures.hubness
    if hubness.skewness.low > limits.skewness:
        yield f"the skewness of how often a row is a neighbour is {hubness.skewness} (limit {limits.skewness:g})"
        yield f"{hubness.antihubs} of rows are nobody's neighbour"
        yield (
            "a few rows are near everything, which misleads retrieval and kNN. Subtract the mean before comparing, or "
            "look at the hubs: blank or corrupt images are often among them"
        )


def dead_dimensions(figures: Figures, limits: Thresholds) -> Iterator[str]:
    if len(figures.dead) > limits.dead_share * figures.d:
        yield f"{len(figures.dead)} of {figures.d} dimensions hardly vary (limit {limits.dead_share:.0%})"
        yield (
            "units that never fire: lower the learning rate or weight decay, check the last activation, or make the "
            "embedding narrower"
        )


def prototypes_unused(figures: Figures, limits: Thresholds) -> Iterator[str]:
    if figures.usage is not None and figures.usage.entropy < limits.usage:
        yield f"the entropy of prototype usage is {figures.usage.entropy:.2f} of its most (limit {limits.usage:g})"
        yield (
            "a few prototypes take all samples. Use Sinkhorn codes with a smaller epsilon or more iterations, freeze "
            "the prototypes at the start, or use fewer"
        )


def barely_begun(figures: Figures, limits: Thresholds) -> Iterator[str]:
    progress = figures.progress
    if progress is None or progress.steps is None:
        return
    is_short = progress.steps < limits.settled_steps and (
        progress.epochs is None or progress.epochs < limits.begun_epochs
    )
    is_cut = progress.share is not None and progress.share < limits.begun_share
    matched = None if figures.views is None else figures.views.matched
    if not (progress.steps < limits.begun_steps or is_short or is_cut):
        return
    if matched is not None and matched.value >= limits.begun_matched:
        return
    yield (
        f"the run has made {progress} (limits {limits.begun_steps:,} steps; {limits.begun_epochs:g} epochs or "
        f"{limits.settled_steps:,} steps; {limits.begun_share:.0%} of the plan)"
    )
    if matched is not None:
        yield f"{matched} of rows find their other view first (limit {limits.begun_matched:g})"
    if progress.late_fall is not None and progress.late_fall > limits.still_falling:
        share = f"{progress.late_fall:.0%} of its fall was" if progress.late_fall <= 1 else "after a rise, it fell"
        yield f"the loss still falls: {share} in the last quarter of the run"
    longer = f"--steps {limits.settled_steps}"  # long enough that the run is not called this again
    if progress.epochs and progress.steps:
        epochs = max(limits.begun_epochs, progress.epochs * limits.settled_steps / progress.steps)
        longer = f"--epochs {math.ceil(epochs / 10) * 10}"
    command = f"eigenview train --resume --out RUN {longer}"
    yield f"train longer: {command}. Until then, that nothing is wrong says little"


RULES: tuple[Callable[[Figures, Thresholds], Iterator[str]], ...] = (  # the gravest first
    diverged,
    full_collapse,
    at_chance,
    dimensional_collapse,
    prototypes_unused,
    words_apart,
    views_disagree,
    views_identical,
    crowded,
    duplicated_data,
    dead_dimensions,
    hubs,
    barely_begun,
)

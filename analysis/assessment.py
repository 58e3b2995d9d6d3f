"""The table of `headtool test`: every head's effect, interval, p-values, verdict and power.

Brings the other modules of this package together; each of them says what it computes and why it is
valid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headtool.analysis.equivalence import (
    VERDICTS,
    check_margin,
    equivalence_p,
    held_back,
    noninferiority_p,
    one_sided_p,
    plain_noninferiority_p,
    verdicts,
)
from headtool.analysis.intervals import (
    bca_interval,
    choose_interval,
    newcombe_of,
    percentile_interval,
)
from headtool.analysis.labels import heads_of, label_columns
from headtool.analysis.levels import check_level
from headtool.analysis.multiplicity import (
    DEFAULT_RESAMPLES,
    Correction,
    adjust,
    check_correction,
    default_resamples,
    first_level,
    resamples_needed,
    step_down,
)
from headtool.analysis.paired import Paired
from headtool.analysis.power import TARGET_POWER, examples_needed, minimum_detectable_effect
from headtool.analysis.resampling import bootstrap_deltas
from headtool.analysis.significance import choose_test, paired_tests
from headtool.errors import HeadtoolError
from headtool.heads import Head, head_name
from headtool.metrics.base import Metric
from headtool.results.outcomes import Outcomes
from headtool.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["DEFAULT_ALPHA", "HeadTests", "assess", "assess_outcomes"]

DEFAULT_ALPHA = 0.05
_WIDE = 0.1  # a default margin of a larger share of the whole model's value is pointed out


@dataclass(frozen=True, eq=False)
class HeadTests:
    """What the outcomes say about every head.

    Attributes
    ----------
    frame
        The table ``tests``, a row per head: ``delta`` is masked minus whole in the metric's unit,
        with its confidence interval; ``p`` and ``p_adjusted`` are two-sided, raw and corrected;
        the verdict is one of `equivalence.VERDICTS`; ``mde`` is the smallest true effect that
        these data would have shown with 80% power; ``stderr`` the jackknife standard error;
        ``n_differing`` the examples on which the mask changes a statistic (for accuracy: the
        discordant ones); ``p_noninferior`` and ``p_equivalent`` are one-sided and TOST p-values
        for the margin, raw; ``p_noninferior_adjusted`` is what the verdict uses;
        ``examples_needed`` the total number of examples that would settle an undecided head with
        80% power if its effect is the observed one, see `power.examples_needed`; ``reason`` why an
        undecided head is not removable although its mean and standard error look like it, see
        `equivalence.held_back`. NaN where something is undefined or not computed.
    test, interval, correction
        What was used. Under ``westfall-young`` the non-inferiority p-values are corrected by Holm:
        swaps show the distribution under "no difference" but not under "worse by the margin".
    metric
        The metric's name.
    whole
        Its value for the whole model.
    n_examples, n_tests
        Examples, and heads with a defined p-value: the family that is corrected for.
    alpha, margin
        Level of each of the two families of claims, needed or harmful and removable, and margin in
        the metric's unit.
    resamples
        Swap patterns behind the p-values; 0 where no p-value needed any.
    resamples_needed
        Fewer than these could make no head significant after correction.
    exact
        Whether p-values come from a closed form or from all patterns that there are.
    expected_false_positives
        Heads that would have a raw p below alpha if no head had any effect, at most.
    notes
        What a reader must know, one line each; empty if there is nothing.
    """

    frame: pd.DataFrame
    test: str
    interval: str
    correction: str
    metric: str
    whole: float
    n_examples: int
    n_tests: int
    alpha: float
    margin: float
    resamples: int
    resamples_needed: int
    exact: bool
    expected_false_positives: float
    notes: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        """Count the verdicts and show the clearest effects, in a notebook."""
        from headtool.results.display import html_result

        columns = ("delta", "ci_low", "ci_high", "p_adjusted", "verdict")
        rows = [
            (head_name(row), *(row[name] for name in columns))
            for row in self.frame.nsmallest(8, "p").to_dict("records")
        ]
        counts = self.frame["verdict"].value_counts()
        named = ", ".join(f"{counts.get(verdict, 0)} {verdict}" for verdict in VERDICTS)
        title = f"{self.metric} {self.whole:.3g} on {self.n_examples} examples: {named}"
        return html_result(title, ("head", *columns), rows, lines=self.notes)

    @property
    def alpha_total(self) -> float:
        """How often any verdict may be false, of either family: the sum of their levels."""
        return min(1.0, 2 * self.alpha)

    @property
    def resamples_sufficient(self) -> bool:
        """Whether a head could have become significant with the resamples used."""
        return self.exact or self.resamples >= self.resamples_needed


def assess(
    paired: Paired,
    *,
    heads: Sequence[Head] | None = None,
    test: str = "auto",
    interval: str = "auto",
    correction: str = "westfall-young",
    alpha: float | None = None,
    alpha_total: float | None = None,
    margin: float | None = None,
    resamples: int | None = None,
    rng: np.random.Generator | int = 0,
) -> HeadTests:
    """Test all masked models against the whole one, and give every head a verdict.

    Parameters
    ----------
    paired
        The outcomes; unchanged.
    heads
        The head of every mask. None: kind ``mask``, layer 0, and the mask's index.
    test
        One of `significance.TESTS`, or ``auto``: exact McNemar for accuracy, sign flips for other
        means, approximate randomisation for everything else.
    interval
        ``percentile`` or ``bca`` (paired bootstrap), ``newcombe`` (accuracy only), or ``auto``:
        ``newcombe`` for accuracy, else ``percentile``. The coverage is 1 - alpha for each head, not
        for all of them together.
    correction
        One of `multiplicity.CORRECTIONS`.
    alpha
        Level of the corrected tests: of the claims needed and harmful, and of the claim removable,
        each. None: 0.05.
    alpha_total
        Instead of `alpha`: level of all claims together, of which each of the two gets half.
    margin
        What a removable head may cost, in the metric's unit. None: 1% of the metric's scale.
    resamples
        Swaps and bootstrap resamples. None: 10,000, and for swaps more where the correction needs
        them. A number is used as it is; `HeadTests.notes` says so if it is too small.
    rng
        Generator, or a seed.

    Raises
    ------
    HeadtoolError
        If an option is unknown or not valid for the metric on these data, a head occurs twice, or
        the margin makes no sense.

    Examples
    --------
    >>> import numpy as np
    >>> from headtool.analysis.assessment import assess
    >>> from headtool.analysis.paired import Paired
    >>> whole = np.ones(200)
    >>> masked = np.ones((2, 200))
    >>> masked[0, :30] = 0
    >>> tests = assess(Paired.from_values(whole, masked, higher_is_better=True), margin=0.05)
    >>> tests.frame["verdict"].tolist()
    ['needed', 'removable']
    """
    corrected_by = check_correction(correction)
    interval_name = choose_interval(paired, interval)
    test_name = choose_test(paired, test)
    alpha = _level(alpha, alpha_total)
    if resamples is not None and resamples < 1:
        raise HeadtoolError(f"`resamples` must be at least 1, got {resamples}")
    chosen_margin = check_margin(paired, margin)
    labels = label_columns(heads, paired.n_masks)
    n_tests = int(np.isfinite(paired.delta).sum())
    for_tests, for_interval, for_power = np.random.default_rng(rng).spawn(3)

    joint = corrected_by == "westfall-young"
    tests = paired_tests(
        paired,
        test=test_name,
        resamples=resamples or default_resamples(corrected_by, alpha, n_tests),
        rng=for_tests,
        joint=joint,
    )
    p_adjusted = step_down(tests) if joint else adjust(tests.p, corrected_by)
    p_noninferior = noninferiority_p(paired, chosen_margin)
    one_sided: Correction = "holm" if joint else corrected_by
    p_noninferior_adjusted = adjust(p_noninferior, one_sided)
    p_different = p_adjusted
    if paired.best:
        beyond = chosen_margin if not paired.higher_is_better else -chosen_margin
        worse = one_sided_p(paired, beyond, greater=not paired.higher_is_better)
        p_different = adjust(worse, one_sided)
    verdict = verdicts(paired.benefit, p_different, p_noninferior_adjusted, alpha=alpha)
    plain = adjust(plain_noninferiority_p(paired, chosen_margin), one_sided)
    reason = held_back(paired, plain, verdict, alpha=alpha)
    level = first_level(tests, corrected_by, alpha)
    needed = examples_needed(
        paired,
        verdict == "undecided",
        margin=chosen_margin,
        level=level,
        level_noninferior=first_level(tests, one_sided, alpha),
        rng=for_power,
    )
    if interval_name == "newcombe":
        low, high = newcombe_of(paired, level=1 - alpha)
    else:
        deltas = bootstrap_deltas(
            paired, resamples=resamples or DEFAULT_RESAMPLES, rng=for_interval
        )
        if interval_name == "bca":
            low, high = bca_interval(paired, deltas, level=1 - alpha)
        else:
            low, high = percentile_interval(deltas, level=1 - alpha)
    frame = _frame(
        **labels,
        delta=paired.delta,
        ci_low=low,
        ci_high=high,
        p=tests.p,
        p_adjusted=p_adjusted,
        verdict=verdict,
        mde=minimum_detectable_effect(paired, level, power=TARGET_POWER),
        stderr=paired.stderr,
        n_differing=paired.differing.astype(np.int64),
        p_noninferior=p_noninferior,
        p_noninferior_adjusted=p_noninferior_adjusted,
        p_equivalent=equivalence_p(paired, chosen_margin),
        examples_needed=needed,
        reason=reason,
    )
    least = resamples_needed(corrected_by, alpha, n_tests) if tests.resamples else 0
    notes = []
    if not tests.exact and tests.resamples < least:
        notes.append(
            f"{tests.resamples} resamples give no p-value below {1 / (tests.resamples + 1):.2g}; "
            f"{corrected_by} over {n_tests} heads at {alpha:g} needs at least {least}"
        )
    if paired.best:
        notes.append(
            f"no mask can have a better {paired.name} than the whole model, so needed means that a "
            f"head costs more than the margin of {chosen_margin:g}"
        )
    elif margin is None and chosen_margin > _WIDE * abs(paired.whole_value):
        notes.append(
            f"the default margin of {chosen_margin:g} is a large part of the whole model's "
            f"{paired.name}, {paired.whole_value:.3g}: removable says little; declare a smaller one"
        )
    if held := int(((reason != "") & (paired.differing > 0)).sum()):
        notes.append(
            f"{held} undecided heads look removable by mean and standard error, but rare large "
            f"costs may hide among {paired.n_examples} examples: see the column reason"
        )
    if undefined := paired.n_masks - n_tests:
        notes.append(f"{paired.name} is undefined for {undefined} of {paired.n_masks} masks")
    return HeadTests(
        frame=frame,
        test=tests.test,
        interval=interval_name,
        correction=corrected_by,
        metric=paired.name,
        whole=paired.whole_value,
        n_examples=paired.n_examples,
        n_tests=n_tests,
        alpha=alpha,
        margin=chosen_margin,
        resamples=tests.resamples,
        resamples_needed=least,
        exact=tests.exact,
        expected_false_positives=alpha * n_tests,
        notes=tuple(notes),
    )


def assess_outcomes(
    outcomes: Outcomes,
    metric: Metric,
    *,
    heads: Sequence[Head] | None = None,
    test: str = "auto",
    interval: str = "auto",
    correction: str = "westfall-young",
    alpha: float | None = None,
    alpha_total: float | None = None,
    margin: float | None = None,
    resamples: int | None = None,
    rng: np.random.Generator | int = 0,
) -> HeadTests:
    """Do what :func:`assess` does from the outcomes of an evaluation.

    Parameters
    ----------
    outcomes
        Outcomes that hold the metric's columns.
    metric
        The metric to test.
    heads
        The head of every mask; None takes :func:`heads_of` the masks.
    test, interval, correction, alpha, alpha_total, margin, resamples, rng
        As for :func:`assess`.
    """
    return assess(
        Paired.from_outcomes(outcomes, metric),
        heads=heads_of(outcomes.masks) if heads is None else heads,
        test=test,
        interval=interval,
        correction=correction,
        alpha=alpha,
        alpha_total=alpha_total,
        margin=margin,
        resamples=resamples,
        rng=rng,
    )


def _level(alpha: float | None, alpha_total: float | None) -> float:
    """Level of each family of claims."""
    name, value = ("alpha", alpha) if alpha_total is None else ("alpha_total", alpha_total)
    if alpha is not None and alpha_total is not None:
        raise HeadtoolError(
            f"`alpha` {alpha:g} and `alpha_total` {alpha_total:g} exclude each other: the first is "
            "the level of each sort of claim, the second is shared by both; give one"
        )
    if value is None:
        return DEFAULT_ALPHA
    check_level(value, name)
    return value if alpha_total is None else value / 2


def _frame(**columns: object) -> pd.DataFrame:
    """Frame with ``tests`` in order, typed also when there is no row."""
    import pandas as pd

    frame = pd.DataFrame({name: columns[name] for name in TABLES["tests"].names})
    texts = dict.fromkeys(("kind", "verdict", "reason"), "str")
    return frame.astype({**texts, "layer": "int64", "head": "int64"})

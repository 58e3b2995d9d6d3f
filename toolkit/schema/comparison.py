"""Tables of a comparison of methods: how alike they are, and what is left as they remove heads."""

from __future__ import annotations

from headtool.schema.columns import Column, Table, boolean, integer, number, string
from headtool.schema.shared import (
    BUDGET,
    DELTA,
    HEAD,
    METHOD,
    METRIC,
    coefficient,
    interval,
)

__all__ = ["AGREEMENT", "COMPARISON", "CURVE", "OVERLAP"]

_COMPARE = "`compare`"
_BOTH = "`compare`, `curve`"
_METRIC = "the metric's"
_PAIR = (string("method_x", "the first method"), string("method_y", "the second"))

AGREEMENT: tuple[Column, ...] = (
    integer("heads", "heads", "ranked"),
    *coefficient("tau_b", "Kendall's tau-b", over="heads", p=True),
    *coefficient("spearman", "Spearman's rho", over="heads", p=True),
    number("rbo", "coefficient", "rank-biased overlap, extrapolated"),
    number("rbo_expected", "coefficient", "its mean over all orders of the heads"),
    number("rbo_p", "", "its p-value if heads could come in any order"),
    number("rbo_p_within_layers", "", "the same with heads exchanged in their layers only"),
)
"""How alike two rankings of the heads are."""

OVERLAP: tuple[Column, ...] = (
    integer("kept", "heads", "that each of the two keeps"),
    integer("shared", "heads", "that both keep"),
    number("jaccard", "share", "heads that both keep, of those that either keeps"),
    number("expected", "share", "mean of `jaccard` for heads drawn from all"),
    number("p_hypergeometric", "", "one-sided p-value of sharing so many drawn from all"),
    number("expected_within_layers", "share", "mean of `jaccard` for heads drawn in each layer"),
    number("p_within_layers", "", "one-sided p-value of sharing so many drawn in each layer"),
)
"""How alike two sets of kept heads are."""

_PLACE = (
    string("kind", "heads up for removal: `all`, or one kind of attention"),
    string(
        "method",
        "the method; `random` for any heads, `random-matched:METHOD` for as many in every layer as "
        "METHOD removes there",
    ),
)
_VALUE = (
    METRIC,
    number("value", _METRIC, "the masked model's"),
    DELTA,
)
CURVE: tuple[Column, ...] = (
    *_PLACE,
    *BUDGET,
    *_VALUE,
    *interval("`delta` at this budget alone", _METRIC),
)
"""What is left of the metric as heads go."""

COMPARISON = (
    Table(
        "splits",
        "an example of a data set and what it was used for",
        _BOTH,
        (
            string("data", "SPEC of the data set"),
            integer("example", "", "its row there, from 0"),
            string("split", "`selection`: heads are scored on it; `evaluation`: all else"),
        ),
        about="The n-th evaluation row of a data set is example n of its outcomes.",
        key=("data", "example"),
    ),
    Table(
        "agreement",
        "a pair of methods: how alike they rank the heads",
        _COMPARE,
        (*_PAIR, *AGREEMENT),
        key=("method_x", "method_y"),
    ),
    Table(
        "concordance",
        "all methods together",
        _COMPARE,
        (
            integer("methods", "methods", "compared"),
            integer("heads", "heads", "ranked"),
            number("w", "coefficient", "Kendall's W with ties"),
            number("w_p", "", "its p-value if heads could come in any order"),
            number("w_p_within_layers", "", "the same with heads exchanged in their layers only"),
        ),
        about="One row.",
    ),
    Table(
        "overlap",
        "a pair of methods at a budget: how alike the heads are that they keep",
        _COMPARE,
        (*BUDGET, *_PAIR, *OVERLAP),
        about="Heads are drawn from all heads, or from each layer as many as each method keeps "
        "there. Budgets that keep all heads or none have no row.",
        key=("budget", "method_x", "method_y"),
    ),
    Table(
        "kept",
        "a method, a budget and a head: whether it stays",
        _BOTH,
        (METHOD, *BUDGET, *HEAD, boolean("kept", "whether it stays")),
        key=("method", "budget", "kind", "layer", "head"),
        full=True,
    ),
    Table(
        "consensus",
        "a budget and a head: how many methods keep it",
        _COMPARE,
        (
            *BUDGET,
            *HEAD,
            integer("methods_keeping", "methods", "that keep it"),
            integer("methods", "methods", "compared"),
            string(
                "status",
                "`consensus-kept` (all keep it), `consensus-removed` (none does) or `disputed`",
            ),
        ),
        key=("budget", "kind", "layer", "head"),
        full=True,
    ),
    Table(
        "curves",
        "a method, or the mean of the random masks, at a budget: what is left of the metric",
        _BOTH,
        CURVE,
        about="Intervals are paired bootstraps over examples; of random masks, over examples and "
        "draws. Where no number of draws was given, each example has random masks of its own, and "
        "the metric is taken over all of them; metrics that are no mean have five draws.",
        key=("kind", "method", "budget"),
    ),
    Table(
        "curve_draws",
        "a draw of random masks at a budget",
        _BOTH,
        (*_PLACE, integer("draw", "", "number of the draw, from 0"), *BUDGET, *_VALUE),
        about="Of these, `curves` has the means. No rows where each example has its own masks.",
        key=("kind", "method", "draw", "budget"),
    ),
    Table(
        "curve_tests",
        "a pair of curves, compared by the area between them",
        _BOTH,
        (
            _PLACE[0],
            string("method_x", "a method"),
            string("method_y", "another method, `random` or `random-matched:METHOD`"),
            number(
                "area",
                _METRIC,
                "mean distance of the curves over the shares removed; positive "
                "where `method_x` keeps more of the metric, whichever direction is better",
            ),
            *interval("`area`", _METRIC),
            number("p", "", "two-sided p-value from the same bootstrap, given the masks"),
            number("p_adjusted", "", "the same, corrected by Holm over the rows of a kind"),
            number(
                "draws_beaten",
                "draws",
                "with a smaller area than `method_x`, or that dropped out of the race with it",
            ),
            number(
                "draws",
                "draws",
                "of random masks that count: all, but in older runs those up to where the "
                "comparison was settled; missing for pairs of methods",
            ),
            number("p_draws", "", "two-sided: could a random draw do as well, or as badly"),
            number(
                "p_draws_adjusted",
                "",
                "the same, corrected over the methods of a kind: a method is a chain, first "
                "against `random`, then against `random-matched:METHOD`, and Holm's factor is the "
                "number of chains that are not finished",
                later=True,
            ),
            number(
                "draw_passes",
                "passes",
                "of one example each that a draw took, over all points; the mean over draws",
                later=True,
            ),
        ),
        about="A method is better or worse than random masks where `p_draws_adjusted` is at most "
        "alpha, and better if it beats most draws; any false claim among the methods of a kind, in "
        "either direction and against either sort of masks, has probability alpha at most. `p` is "
        "no evidence of that: it holds for the masks drawn, and asks whether these very masks "
        "differ on other examples. If the number of draws is left open (the default), rows with "
        "random masks have no `p`, and only methods that are better than `random` have a row with "
        "matched masks, whose area is that over the first ten draws, on the points of the draws "
        "and on part of their examples (`draws_plan` among the settings); the area over `random` "
        "is that of the curves. "
        "With replicates, curves of the kind `all` are averaged over the models.",
        key=("kind", "method_x", "method_y"),
    ),
    Table(
        "replacement_curves",
        "a method at a budget, with one replacement for the heads that are removed",
        _BOTH,
        (string("replacement", "what they put out, such as `zero` or `mean`"), *CURVE),
        about="Only where several replacements were asked for; those of the first stand in "
        "`curves` as well.",
        key=("replacement", "kind", "method", "budget"),
    ),
    Table(
        "faithfulness",
        "a method at a number of heads kept: the metric with only its most important heads open",
        _BOTH,
        (
            *_PLACE,
            integer("kept", "heads", "how many heads stay: the most important ones"),
            number("share", "share", "the same, of all heads that were up for removal", known=True),
            METRIC,
            number("value", _METRIC, "the model's with only these heads"),
            number(
                "faithfulness",
                "share",
                "(`value` - value with no head) / (whole model's value - value with no head)",
            ),
            *interval("`faithfulness` at this point alone", "share"),
        ),
        about="1 is the whole model and 0 the model without a head, in whichever direction the "
        "metric is better. Intervals are paired bootstraps over examples; of several random "
        "rankings, which have one row, they span the single ones. Missing where the whole model "
        "and the model without a head have the same value.",
        key=("kind", "method", "kept"),
    ),
    Table(
        "faithfulness_areas",
        "a method: the areas under its keep-only curve",
        _BOTH,
        (
            *_PLACE,
            number("cpr", "share", "area under `faithfulness`; more is better"),
            *interval("`cpr`", "share", "cpr_"),
            number("cmd", "share", "area under abs(1 - `faithfulness`); less is better"),
            *interval("`cmd`", "share", "cmd_"),
            number("cpr_beaten", "draws", "random rankings with a smaller `cpr`"),
            number("cmd_beaten", "draws", "random rankings with a larger `cmd`"),
            number("draws", "draws", "random rankings"),
            number("whole", _METRIC, "the whole model's value"),
            number("none", _METRIC, "the value with no head"),
            string("reason", "why there is no area; empty where there is one"),
        ),
        about="The circuit performance ratio (CPR) and the circuit-model distance (CMD) of Mueller "
        "et al. 2025 (MIB), by the trapezoid rule between their shares: .001, .002, .005, .01, "
        ".02, .05, .1, .2, .5 and 1, of which the whole number of heads below stays. Intervals are "
        "paired bootstraps over examples; of several random rankings, they span the single ones. "
        "How many of these are beaten describes; it is no test, and is missing where each example "
        "has a ranking of its own.",
        key=("kind", "method"),
    ),
    Table(
        "optimism",
        "a method at a budget: how much selecting on the evaluation examples flatters it",
        _COMPARE,
        (
            METHOD,
            *BUDGET,
            number("selection", _METRIC, "delta of what it selects on the evaluation examples"),
            number("evaluation", _METRIC, "delta of what it selects on the selection examples"),
            number(
                "optimism",
                _METRIC,
                "their difference, positive where selecting and evaluating on "
                "the same examples looks better",
            ),
            *interval("`optimism`", _METRIC),
        ),
        about="Both deltas are measured on the evaluation examples; where `draws` is left open, at "
        "three points of the curve, about a quarter, a half and three quarters of the heads.",
        key=("method", "budget"),
    ),
    Table(
        "stability",
        "a method: how alike it ranks the heads on the selection and the evaluation examples",
        _COMPARE,
        (METHOD, *AGREEMENT),
        about="Two methods cannot be expected to agree better than each does with itself.",
        key=("method",),
    ),
    Table(
        "additivity",
        "a method at a budget: what its removed heads cost together, and one at a time",
        _COMPARE,
        (
            METHOD,
            *BUDGET,
            number("joint", _METRIC, "delta of removing them together"),
            number("sum_of_singles", _METRIC, "sum of the deltas of removing each alone"),
            number("gap", _METRIC, "`joint` minus `sum_of_singles`"),
            *interval("`gap`", _METRIC),
        ),
        about="These are deltas: where more of the metric is better, a negative gap means that the "
        "heads together cost more than their sum.",
        key=("method", "budget"),
    ),
    Table(
        "failures",
        "a method that failed, and why",
        _BOTH,
        (
            string("stage", "what it was doing"),
            METHOD,
            string("error", "why it failed"),
        ),
    ),
)

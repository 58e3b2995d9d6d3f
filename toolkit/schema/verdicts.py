"""Tables of tests of single heads, and of their importance on several data sets."""

from __future__ import annotations

from headtool.schema.columns import Table, boolean, integer, number, string
from headtool.schema.shared import BY_DATA, DELTA, HEAD, coefficient, interval

__all__ = ["VERDICTS"]

_VERDICT = string(
    "verdict",
    "`needed`, `removable`, `harmful` or `undecided`; `not tested` if screened out",
)
_METRIC = "the metric's"

VERDICTS = (
    Table(
        "tests",
        "a head, tested",
        "`test`, `compare`",
        (
            BY_DATA,
            string(
                "replacement",
                "what closed heads put out; in the output of `test` on several replacements only",
                optional=True,
            ),
            *HEAD,
            DELTA,
            *interval("`delta`", _METRIC, "ci_"),
            number("p", "", "two-sided p-value of no difference"),
            number("p_adjusted", "", "the same, corrected over the heads"),
            _VERDICT,
            number("mde", _METRIC, "smallest true effect that these data show with 80% power"),
            number("stderr", _METRIC, "jackknife standard error of `delta`"),
            integer("n_differing", "examples", "on which the mask changes what the metric counts"),
            number("p_noninferior", "", "one-sided p-value of costing less than the margin"),
            number("p_noninferior_adjusted", "", "the same, corrected; the verdict uses it"),
            number("p_equivalent", "", "p-value of a difference within the margin (TOST)"),
            number(
                "examples_needed",
                "examples",
                "in all, to settle an undecided head if its effect is the observed one",
                endless=True,
            ),
            string(
                "reason",
                "why an undecided head is not removable although its mean and standard error look "
                "like it: `few examples dominate` or `too few examples`; empty for others",
                later=True,
            ),
        ),
        about="In a comparison by its metric, on the evaluation examples of every data set.",
        key=("data", "replacement", "kind", "layer", "head"),
    ),
    Table(
        "kinds",
        "a kind of attention, summarised over the tests of its heads",
        "the JSON document of `test`",
        (
            HEAD[0],
            integer("heads", "heads", "tested"),
            number("mean", _METRIC, "mean of `delta`"),
            number("sd", _METRIC, "standard deviation of `delta`"),
            number("lowest", _METRIC, "least `delta`"),
            number("highest", _METRIC, "largest `delta`"),
            integer("significant", "heads", "whose corrected p-value is at most the level"),
            *(
                integer(name, "heads", f"with the verdict `{name}`")
                for name in ("needed", "removable", "harmful", "undecided")
            ),
        ),
    ),
    Table(
        "sequential",
        "a head, tested until its verdict was clear",
        "`headtool ablate --sequential`",
        (
            *HEAD,
            number("delta", "accuracy", "mean difference on the examples seen"),
            *interval("`delta`, valid whenever it stops", "accuracy", "ci_"),
            _VERDICT,
            boolean("decided", "whether the verdict is final"),
            integer("n_examples", "examples", "seen"),
        ),
        key=("kind", "layer", "head"),
    ),
    Table(
        "compat_tests",
        "a head, tested as another tool would",
        "`headtool test --compat`",
        (
            string("mode", "which tool and which of its tests"),
            *HEAD,
            DELTA,
            number("p", "", "p-value as the tool defines it"),
            number("mean", _METRIC, "sacreBLEU's bootstrap mean of the masked model's value"),
            number("ci", _METRIC, "half the length of sacreBLEU's interval"),
        ),
    ),
    Table(
        "correlations",
        "a pair of data sets: are the same heads important on both",
        "`correlate`, `compare` with several data sets",
        (
            string("data_x", "the first data set"),
            string("data_y", "the second"),
            integer("n_heads", "heads", "compared"),
            *coefficient("pearson", "Pearson's r", over="examples", p=True),
            *coefficient("spearman", "Spearman's rho", over="examples", p=True),
            *coefficient("kendall", "Kendall's tau-b", over="examples", p=True),
            number(
                "pearson_fisher_low", "coefficient", "lower end of Fisher's interval over heads"
            ),
            number(
                "pearson_fisher_high", "coefficient", "upper end of Fisher's interval over heads"
            ),
            number("reliability_x", "coefficient", "split-half reliability on the first data set"),
            number("reliability_y", "coefficient", "the same on the second"),
            number("disattenuated", "coefficient", "Pearson's r corrected for unreliability"),
            string("note", "why numbers are missing; empty where none is"),
        ),
    ),
    Table(
        "replication",
        "a head: on how many data sets it has an effect",
        "the JSON document of `correlate`",
        (
            *HEAD,
            integer("data_sets", "data sets", "on which the head matters, as estimated"),
            number("p_any", "", "corrected p-value of an effect on at least one"),
            number("p_all", "", "corrected p-value of an effect on all"),
        ),
    ),
)

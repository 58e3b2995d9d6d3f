"""Tables of a comparison that is repeated: on halves of the examples, and on other models."""

from __future__ import annotations

from headtool.schema.columns import Table, integer, number, string
from headtool.schema.comparison import AGREEMENT, CURVE, OVERLAP
from headtool.schema.shared import BUDGET, HEAD, METHOD, METRIC, coefficient, interval

__all__ = ["REPEATS"]

_STABILITY = "`headtool compare --stability N`"
_REPLICATE = "`headtool compare --replicate SPEC`"
_MODEL = string("model", "SPEC of the model")
_PAIR = (string("model_x", "the first model"), string("model_y", "the second"))
_HALVES = integer("subsamples", "halves", "on which heads were scored again")

REPEATS = (
    Table(
        "subsamples",
        "a method: how alike it ranks the heads on random halves of the selection examples",
        _STABILITY,
        (
            METHOD,
            _HALVES,
            integer("pairs", "pairs", "of halves without a common example"),
            integer("examples", "examples", "in a half"),
            integer("heads", "heads", "ranked"),
            *coefficient("tau_b", "mean of Kendall's tau-b over the pairs", over="pairs"),
            *coefficient("spearman", "mean of Spearman's rho over the pairs", over="pairs"),
            *coefficient("rbo", "mean of the rank-biased overlap over the pairs", over="pairs"),
            number("rbo_expected", "coefficient", "mean of `rbo` for heads in any order"),
        ),
        about="`stability` compares two sets of examples once, each as large as what selected the "
        "heads; these tables compare many of half that size, and vary a random method's seed as "
        "well.",
    ),
    Table(
        "subsample_overlap",
        "a method at a budget: how alike the heads are that it keeps on such halves",
        _STABILITY,
        (
            METHOD,
            *BUDGET,
            integer("kept", "heads", "kept on each half"),
            number("jaccard", "share", "mean over the pairs of kept by both, of kept by either"),
            *interval("`jaccard`", "share"),
            number("expected", "share", "mean of `jaccard` for heads drawn from all"),
            number("expected_within_layers", "share", "the same, drawn in each layer"),
            integer("stable_kept", "heads", "kept on at least 90% of the halves"),
            number("false_kept", "heads", "of these expected by chance, at most"),
            integer("stable_removed", "heads", "removed on at least 90% of the halves"),
            number("false_removed", "heads", "of these expected by chance, at most"),
            number("tied", "share", "halves on which the cut falls between heads of equal scores"),
        ),
    ),
    Table(
        "selection_frequency",
        "a method, a budget and a head: on how many such halves it stays",
        _STABILITY,
        (
            METHOD,
            *BUDGET,
            *HEAD,
            integer("times", "halves", "on which it stays"),
            _HALVES,
            number("frequency", "share", "`times` of `subsamples`"),
            string("status", "`stable-kept`, `stable-removed` or `unstable`"),
        ),
    ),
    Table(
        "subsample_scores",
        "a method's score of a head on such a half",
        _STABILITY,
        (
            METHOD,
            integer("subsample", "", "number of the half, from 1"),
            *HEAD,
            number("score", "the method's", "how important the head is; more is more"),
            integer("rank", "", "1 for the most important head"),
        ),
    ),
    Table(
        "replicates",
        "a model, trained with a seed of its own, and a metric: its value",
        _REPLICATE,
        (
            _MODEL,
            string("sha256", "SHA-256 of its weights"),
            METRIC,
            number("value", "the metric's", "the whole model's, on the evaluation examples"),
        ),
        about="The model compared is the first.",
        key=("model", "metric"),
    ),
    Table(
        "replicate_scores",
        "a method's score of a head of a model",
        _REPLICATE,
        (
            _MODEL,
            METHOD,
            *HEAD,
            number("score", "the method's", "how important the head is; more is more"),
            number("stderr", "the method's", "standard error over examples, if the method has one"),
            integer("rank", "", "1 for the most important head"),
        ),
        key=("model", "method", "kind", "layer", "head"),
    ),
    Table(
        "replicate_agreement",
        "a method and a pair of models: how alike it ranks the heads, and the layers",
        _REPLICATE,
        (
            METHOD,
            *_PAIR,
            *AGREEMENT,
            integer("layers", "layers", "ranked by the mean ranks of their heads"),
            number("layer_tau_b", "coefficient", "Kendall's tau-b of the layers"),
            number("layer_tau_b_p", "", "its p-value if layers could come in any order"),
            number("layer_spearman", "coefficient", "Spearman's rho of the layers"),
            number("layer_spearman_p", "", "its p-value if layers could come in any order"),
        ),
        about="Heads have a counterpart in another model only if both were fine-tuned from one "
        "pretrained model; layers always have. Fewer than three layers have no coefficients.",
        key=("method", "model_x", "model_y"),
    ),
    Table(
        "replicate_overlap",
        "a method, a budget and a pair of models: how alike the heads are that it keeps",
        _REPLICATE,
        (METHOD, *BUDGET, *_PAIR, *OVERLAP),
        about="As `overlap`, with models instead of methods.",
        key=("method", "budget", "model_x", "model_y"),
    ),
    Table(
        "replicate_curves",
        "a model and a method, or the mean of the random masks, at a budget",
        _REPLICATE,
        (_MODEL, *CURVE),
        about="As `curves`, for every model by itself.",
        key=("model", "kind", "method", "budget"),
    ),
)

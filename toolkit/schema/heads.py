"""Tables about the single heads of one model: scores, ablations and the outcomes behind them."""

from __future__ import annotations

from headtool.schema.columns import Table, boolean, integer, number, string
from headtool.schema.shared import BUDGET, BY_DATA, DELTA, HEAD, METHOD, METRIC, interval

__all__ = ["HEADS"]

_KIND, _LAYER, _HEAD = HEAD
_STDERR = number("stderr", "the metric's", "jackknife standard error of `delta` over examples")

_REPLACEMENT = string("replacement", "what closed heads put out, such as `zero` or `mean`")

_MASKS = (
    string("mask", "the closed heads, separated by spaces; empty for the whole model"),
    integer("example", "", "number of the example among those that were evaluated, from 0"),
)

_FLOPS = "floating-point operations"

HEADS = (
    Table(
        "sites",
        "an attention site of the model",
        "`ablate`, `compare`, `curve`, `import` with a model, `roles`, `score` with `ablation`",
        (
            _KIND,
            _LAYER,
            integer("n_heads", "heads", "how many heads it has"),
            integer("n_kv_heads", "heads", "how many key/value heads they share"),
            integer("head_dim", "dimensions", "size of a head"),
            string("projection", "name of the module that projects what the heads put out"),
        ),
        key=("kind", "layer"),
    ),
    Table(
        "heads",
        "an attention site, as `headtool heads` lists it",
        "`heads`, its JSON document and CSV",
        (
            _KIND,
            _LAYER,
            integer("heads", "heads", "how many heads it has"),
            integer("kv_groups", "groups", "how many key/value heads they share"),
            integer("head_dim", "dimensions", "size of a head"),
            integer("parameters_per_head", "parameters", "weights that go with one head"),
            integer(
                "parameters_per_group", "parameters", "weights that go with the last of a group"
            ),
            integer("calls_sharing_weights", "calls", "layer calls that share its weights"),
            string("projection", "name of the module that projects what the heads put out"),
        ),
    ),
    Table(
        "scores",
        "a method's score of a head",
        "`score`, `compare`, `curve`, `import`",
        (
            BY_DATA,
            METHOD,
            *HEAD,
            number("score", "the method's", "how important the head is; more is more"),
            number("stderr", "the method's", "standard error over examples, if the method has one"),
            integer("rank", "", "1 for the most important head"),
            boolean(
                "tied",
                "whether another head has the same score, so that the loss (`ablation`) or the "
                "seed ranks it",
                later=True,
            ),
            number(
                "mean_rank",
                "",
                "mean of `rank` over all orders of the heads that only the seed ranks",
                later=True,
            ),
            number("raw", "the method's", "`gradient`: before normalisation", optional=True),
            number("relevance", "the method's", "`lrp`: mean relevance", optional=True),
            number(
                "total",
                "nats",
                "`integrated` on the path `attention`: attribution summed over positions",
                optional=True,
            ),
            number("log_alpha", "", "`gates`: the trained parameter of the gate", optional=True),
            number(
                "first_score",
                "",
                "`headtool score --iterative`: the score on the whole model; `score` is the place "
                "in the order of removal, from 0",
                optional=True,
            ),
            number("gate", "", "`gates`: the gate without noise, 0 to 1", optional=True),
            boolean(
                "kept",
                "`gates`, `dsp`, `fisher`: whether the head stays; missing for other methods",
                optional=True,
                missing=True,
            ),
            boolean(
                "kept_diagonal",
                "`fisher`: whether it would stay by its own score alone",
                optional=True,
                missing=True,
            ),
        ),
        about="Runs and documents of `score` hold what methods tell of a head beside its score.",
        further="`METRIC`: the masked model's value, of `ablation`; `kept_at_LAMBDA`: whether the "
        "head stays at one lambda of a sweep, of `gates`; whatever a plug-in method adds",
        key=("data", "method", "kind", "layer", "head"),
    ),
    Table(
        "score_repeats",
        "one measurement of a head's score",
        "`import` of scores that were measured several times",
        (
            METHOD,
            *HEAD,
            integer("repeat", "", "number of the measurement, from 0; one for all heads"),
            number(
                "score", "the method's", "what was measured; `scores` has the means", known=True
            ),
        ),
        key=("method", "kind", "layer", "head", "repeat"),
    ),
    Table(
        "heads_compared",
        "a head: its effect on the first data set, and every method's score and rank",
        "the CSV of `compare`",
        (
            *HEAD,
            DELTA,
            number("ci_low", "the metric's", "lower end of the interval of `delta`"),
            number("ci_high", "the metric's", "upper end of the interval of `delta`"),
            number("p", "", "two-sided p-value of no difference"),
            number("p_adjusted", "", "the same, corrected over the heads"),
            string("verdict", "`needed`, `removable`, `harmful` or `undecided`"),
        ),
        further="`score.METHOD` and `rank.METHOD` of every method, as in `scores`",
    ),
    Table(
        "ablation",
        "the effect of a mask about one head, by one metric",
        "`ablate`, `compare`",
        (BY_DATA, *HEAD, DELTA, _STDERR, METRIC),
        about="The mask closes the head, or with `headtool ablate --all-but-one` all others of its "
        "site. There are rows by the metric that was asked for, then by the loss.",
        key=("data", "kind", "layer", "head", "metric"),
    ),
    Table(
        "screening",
        "a head: whether a cheap method left open what it is worth",
        "`headtool ablate --screen`, the method `ablation` with `screen`",
        (
            *HEAD,
            number("score", "the method's", "of the method that screened, on the selection half"),
            integer("rank", "", "1 for the most important head"),
            boolean("tested", "whether it was ablated, on the other half"),
        ),
        about="The heads whose ranks lie nearest to the cut are tested.",
        key=("kind", "layer", "head"),
    ),
    Table(
        "replacements",
        "the effect of closing one head, by one metric, with one replacement",
        "`ablate`, `compare` with several replacements",
        (_REPLACEMENT, *HEAD, DELTA, _STDERR, METRIC),
        key=("replacement", "kind", "layer", "head", "metric"),
    ),
    Table(
        "replacement_agreement",
        "a pair of replacements: how alike the effects of heads are under both",
        "`ablate`, `compare` with several replacements",
        (
            string("replacement_x", "the first replacement"),
            string("replacement_y", "the second"),
            METRIC,
            integer("heads", "heads", "closed one at a time"),
            number("tau_b", "coefficient", "Kendall's tau-b of the effects"),
            number("spearman", "coefficient", "Spearman's rho of the effects"),
            number("same_verdict", "share", "heads with the same verdict under both"),
            string("changed", "the heads whose verdict changes, separated by spaces", later=True),
        ),
        key=("replacement_x", "replacement_y"),
    ),
    Table(
        "replacement_scores",
        "a method's score of a head, with one replacement",
        "`score` with several replacements",
        (
            _REPLACEMENT,
            METHOD,
            *HEAD,
            number("score", "the method's", "how important the head is; more is more"),
            number("stderr", "the method's", "standard error over examples, if the method has one"),
            integer("rank", "", "1 for the most important head"),
        ),
        about="Of methods that close heads or measure against a baseline; the scores with the "
        "first replacement stand in `scores` as well.",
        key=("replacement", "method", "kind", "layer", "head"),
    ),
    Table(
        "replacement_score_agreement",
        "a method and a pair of replacements: how alike the scores are under both",
        "`score` with several replacements",
        (
            METHOD,
            string("replacement_x", "the first replacement"),
            string("replacement_y", "the second"),
            integer("heads", "heads", "scored under both"),
            number("tau_b", "coefficient", "Kendall's tau-b of the scores"),
            number("spearman", "coefficient", "Spearman's rho of the scores"),
        ),
        key=("method", "replacement_x", "replacement_y"),
    ),
    Table(
        "best",
        "the head of a site that does best alone",
        "`headtool ablate --all-but-one`",
        (
            *HEAD,
            number("delta", "the metric's", "masked minus whole on the half that did not choose"),
            number("delta_chosen_on", "the metric's", "the same on the half that did"),
            METRIC,
        ),
    ),
    Table(
        "outcomes",
        "a mask on an example",
        "`ablate`, `compare` (single heads; `outcomes.2` and so on: further data sets), `score` "
        "with `ablation` (`ablation.outcomes`)",
        _MASKS,
        further="what metrics are computed from: `loss` (nats), `tokens`, `prediction`, `gold`; "
        "of translations, sacreBLEU's statistics",
    ),
    Table(
        "curve_outcomes",
        "a mask of a curve on an example",
        "`compare`, `curve`",
        _MASKS,
        further="as in `outcomes`",
    ),
    Table(
        "hypotheses",
        "a translation by a mask, where it is not the whole model's",
        "`ablate` with a metric of translations, `score` (`ablation.hypotheses`)",
        (*_MASKS, string("text", "the translation, detokenised")),
    ),
    Table(
        "references",
        "an example's reference translation",
        "`ablate` with a metric of translations, `score` (`ablation.references`)",
        (_MASKS[1], string("text", "the reference")),
    ),
    Table(
        "recovery",
        "a model by one metric: whole, with heads closed, and pruned",
        "`headtool prune --data`, its record and report",
        (
            string(
                "stage",
                "`whole`; `zero`: the heads put out nothing; `mean` or `optimal`: they put out "
                "constants; `rescaled`; `finetuned`",
            ),
            METRIC,
            number("value", "the metric's", "the model's"),
            number("delta", "the metric's", "the model's minus the whole one's"),
            *interval("`delta`", "the metric's"),
        ),
        about="Intervals are paired bootstraps over examples. Nothing was fitted to these examples "
        "if constants or weights were fitted at all.",
        key=("stage", "metric"),
    ),
    Table(
        "pruning_curve",
        "a number of heads removed by the same scores, and what they put out instead",
        "`headtool prune --replace`, its record and report",
        (
            string("replacement", "`zero`, `mean` or `optimal`"),
            *BUDGET,
            METRIC,
            number("value", "the metric's", "the masked model's"),
            DELTA,
            *interval("`delta`", "the metric's"),
        ),
        key=("replacement", "budget"),
    ),
    Table(
        "savings",
        "what a smaller model saves, by one unit of removal",
        "`prune`, its JSON document and CSV",
        (
            string("unit", "what is removed: `head` or `group`"),
            integer("heads_removed", "heads", "how many heads go"),
            integer("parameters", "parameters", "of the whole model"),
            integer("parameters_after", "parameters", "of the smaller one"),
            integer("attention_parameters", "parameters", "of the whole model's attention"),
            integer("attention_parameters_after", "parameters", "of the smaller one's"),
            integer("flops", _FLOPS, "of the whole model's forward pass"),
            integer("flops_after", _FLOPS, "of the smaller one's"),
            integer("attention_flops", _FLOPS, "of the whole model's attention"),
            integer("attention_flops_after", _FLOPS, "of the smaller one's"),
            integer("sequence_length", "tokens", "length of the input that these were counted on"),
            number(
                "difference",
                "share",
                "largest difference from the masked model's output, of the largest output",
            ),
        ),
        about="None for a baked model, which keeps its size.",
    ),
    Table(
        "speed",
        "a model at a batch size",
        "`speed`",
        (
            string("work", "`forward` or `decode`"),
            integer("batch_size", "examples", "how many examples are in a batch"),
            string("model", "`whole`, `masked` or `pruned`"),
            number("latency", "seconds", "median time of a batch"),
            number("latency_low", "seconds", "lower end of its 95% interval"),
            number("latency_high", "seconds", "upper end of its 95% interval"),
            number("examples_per_second", "examples per second", "throughput at the median"),
            number("tokens_per_second", "tokens per second", "throughput at the median"),
            number("speedup", "times", "how many times as fast as the whole model, median"),
            number("speedup_low", "times", "lower end of its 95% interval"),
            number("speedup_high", "times", "upper end of its 95% interval"),
            number("peak_memory", "bytes", "largest use of memory, weights included"),
        ),
    ),
    Table(
        "options",
        "an option of a scoring method",
        "the CSV of `methods`",
        (
            METHOD,
            string("name", "name of the option, for `headtool score --set METHOD.NAME=VALUE`"),
            string("default", "its default as text; empty for none"),
            string("choices", "what it can be, separated by spaces; empty for anything"),
            string("help", "what it does"),
        ),
    ),
)

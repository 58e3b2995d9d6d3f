"""Tables of roles, of training runs, and of methods of their own."""

from __future__ import annotations

from headtool.schema.columns import Column, Table, integer, number, string
from headtool.schema.shared import BUDGET, HEAD, METHOD, METRIC

__all__ = ["OTHERS"]

_CHECKPOINT = string("checkpoint", "name of the checkpoint")
_ROLE = string(
    "role",
    "`positional`, `syntactic`, `rare-token`, `separator`, `punctuation`, `first-token`, "
    "`previous-token` or `induction`",
)
_TRAINED: tuple[Column, ...] = (
    string("model", "the whole model, or what the kept heads and which weights make of it"),
    integer("heads", "heads", "open"),
    number("loss", "nats per token", "of these heads, on examples held out of the training"),
    integer("examples", "examples", "held out"),
)
_FURTHER = (
    "`METRIC`: the value of the metric; of models with several kinds of attention, the open heads "
    "by kind"
)

OTHERS = (
    Table(
        "plan",
        "a part of a command: what it will cost",
        "`headtool COMMAND --dry-run`, `headtool.plan`; in no run",
        (
            string("phase", "name of the part; a method's begins with `scores.` in a comparison"),
            string(
                "what",
                "what is done, where the part has several things to do; for which methods, if "
                "several read the same pass; or empty",
            ),
            integer("examples", "examples", "that the passes are over"),
            integer("tokens", "tokens", "of these examples, without padding"),
            number("forward", "passes", "forward passes over all of the examples, at most"),
            number("backward", "passes", "backward passes, at most"),
            number("decoded", "passes", "how often all examples are decoded, at most"),
            integer("steps", "steps", "of an optimiser; their passes are among the others"),
            integer("units", "units", "of work that can be spread over workers; 0: not cut"),
            number(
                "token_passes_least",
                "token-passes",
                "tokens once forwards through the whole model, what is taken over from other "
                "passes left out; a backward pass counts as one, to the weights as two; at least",
            ),
            number("token_passes_most", "token-passes", "the same, at most"),
            number("forward_flops", "operations", "of forward passes and decoding, at most"),
            number("backward_flops", "operations", "of backward passes, at most"),
            number("seconds_least", "seconds", "at least, from one batch that was timed"),
            number("seconds_most", "seconds", "the same, at most"),
        ),
        key=("phase", "what"),
    ),
    Table(
        "roles",
        "a head and a role: the evidence that it has it",
        "`roles`, `headtool compare --roles`",
        (
            *HEAD,
            _ROLE,
            string("detail", "the offset, or the dependency relation and its direction; or empty"),
            number("share", "share", "queries whose largest weight lies where the role says"),
            number("baseline", "share", "the baseline's, on the same queries"),
            number("threshold", "share", "from which on the head has the role"),
            number("low", "share", "lower end of the interval of `share`"),
            number("high", "share", "upper end of the interval of `share`"),
            integer("n", "queries", "counted"),
            integer("sentences", "sentences", "with a query"),
            number("p", "", "two-sided p-value of doing as the baseline"),
            number("p_adjusted", "", "the same, corrected within the role"),
            string("label", "`yes`, `unproven`, `no` or `untested`"),
            string("guess", "what the baseline guesses: any key, or a fixed offset"),
        ),
        key=("kind", "layer", "head", "role", "detail"),
    ),
    Table(
        "role_survival",
        "a method, a budget and a role: how many heads of the role stay",
        "`headtool roles --kept`, `headtool compare --roles`",
        (
            METHOD,
            *BUDGET,
            string("role", "the role; `none` for heads without any"),
            integer("heads", "heads", "that have the role"),
            integer("kept", "heads", "of these that stay"),
            number("expected", "heads", "mean of `kept` for heads drawn from all"),
            number("p_hypergeometric", "", "one-sided p-value of so many drawn from all"),
            number("expected_within_layers", "heads", "mean of `kept` for heads drawn by layer"),
            number("p_within_layers", "", "one-sided p-value of so many drawn in each layer"),
            number("p_adjusted", "", "the latter, corrected by Holm over all rows"),
        ),
        key=("method", "budget", "role"),
    ),
    Table(
        "checkpoint_scores",
        "a method's score of a head at a checkpoint",
        "`dynamics`",
        (
            METHOD,
            *HEAD,
            number("score", "the method's", "how important the head is; more is more"),
            number("stderr", "the method's", "standard error over examples, if the method has one"),
            integer("rank", "", "1 for the most important head"),
            _CHECKPOINT,
        ),
        further="what the method tells of a head, as in `scores`",
    ),
    Table(
        "checkpoint_curves",
        "a checkpoint and a number of heads removed",
        "`dynamics`",
        (
            _CHECKPOINT,
            integer("removed", "heads", "how many heads are removed"),
            number("share", "share", "the same, of all heads"),
            METRIC,
            number("value", "the metric's", "the masked model's"),
            number("relative", "share", "what is left of the checkpoint's own whole value"),
        ),
        key=("checkpoint", "share"),
    ),
    Table(
        "prunability",
        "a checkpoint: how much of it can be pruned",
        "`dynamics`",
        (
            _CHECKPOINT,
            number("whole", "the metric's", "the whole model's value"),
            number("prunable_90", "share", "heads that can go before less than 90% is left"),
            number("prunable_50", "share", "heads that can go before less than 50% is left"),
            number("area", "share", "what is left on average over the shares removed"),
        ),
        key=("checkpoint",),
    ),
    Table(
        "rank_stability",
        "a pair of checkpoints: how alike the heads rank",
        "`dynamics`",
        (
            string("checkpoint_x", "the first checkpoint"),
            string("checkpoint_y", "the second"),
            integer("heads", "heads", "ranked"),
            number("spearman", "coefficient", "Spearman's rho of the scores"),
            number("kendall", "coefficient", "Kendall's tau-b of the scores"),
            number("kept_alike", "share", "of the better half at one, in the better half at both"),
        ),
        key=("checkpoint_x", "checkpoint_y"),
    ),
    Table(
        "gates.evaluation",
        "a model with some heads, evaluated",
        "`score`, `compare` and `curve` with `gates`",
        _TRAINED,
        further=_FURTHER,
    ),
    Table(
        "gates.sweep",
        "a lambda, and a model with the heads that it keeps",
        "`score`, `compare` and `curve` with `gates.sweep`",
        (number("lambda", "", "weight of the penalty"), *_TRAINED),
        further=_FURTHER,
    ),
    Table(
        "dsp.evaluation",
        "a model with some heads, evaluated",
        "`score`, `compare` and `curve` with `dsp`",
        _TRAINED,
        further=_FURTHER,
    ),
    Table(
        "shapley.estimate",
        "the estimate as a whole",
        "`score`, `compare` and `curve` with `shapley`",
        (
            string("value", "what is shared out: a metric, or minus a metric"),
            integer("orders", "orders", "walked"),
            number("mean stderr", "the value's", "mean standard error of the scores"),
            number("all heads", "the value's", "of the whole model"),
            number("no heads", "the value's", "of the model with all heads closed"),
            number("sum of scores", "the value's", "over all heads"),
            number("left out", "the value's", "what walks that ended early did not share out"),
            integer("masks", "masks", "evaluated"),
        ),
        about="One row.",
    ),
    Table(
        "env",
        "a fact about what headtool runs on",
        "the CSV of `env`",
        (
            string("part", "`versions`, `machine` or `variables` (of the environment)"),
            string("name", "the package, the part of the machine, or the variable"),
            string("value", "what it is"),
        ),
    ),
    Table(
        "tables",
        "a table of a run",
        "the CSV of `show`",
        (
            string("name", "its name"),
            integer("rows", "rows", "it has"),
            string("row", "what a row of it is; empty for tables of plug-in methods"),
        ),
    ),
)

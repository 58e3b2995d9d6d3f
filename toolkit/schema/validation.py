"""Tables of methods that are tried on models whose truth is known."""

from __future__ import annotations

from headtool.schema.columns import Table, integer, number, string
from headtool.schema.shared import HEAD, METHOD, interval

__all__ = ["VALIDATION"]

_MADE_BY = "`headtool validate`"
_VARIANT = string("variant", "options that are not the default ones; empty for the defaults")
_KINDS = ("necessary", "interchangeable", "harmful", "constant", "idle")

VALIDATION = (
    Table(
        "validation",
        "a method with some options: how well it finds the heads that are known to matter",
        _MADE_BY,
        (
            METHOD,
            _VARIANT,
            integer("models", "models", "tried; what follows are means over them"),
            number("auroc_single", "share", "pairs with the necessary head above the other"),
            *interval("`auroc_single`", "share", "auroc_single_"),
            number("ap_single", "share", "average precision for necessary heads"),
            number("auroc_set", "share", "pairs with the head of a smallest sufficient set above"),
            *interval("`auroc_set`", "share", "auroc_set_"),
            number("ap_set", "share", "average precision for heads of smallest sufficient sets"),
            number("kept", "heads", "the most important heads that suffice together"),
            *interval("`kept`", "heads", "kept_"),
            number("necessary", "share", "pairs with the necessary head above the idle one"),
            number(
                "interchangeable",
                "share",
                "pairs with the better interchangeable head above the idle one",
            ),
            number("harmful", "share", "of a smallest sufficient set above the harmful head"),
            number("constant", "share", "pairs with the constant head below the necessary one"),
            number("forward", "passes", "forward passes over the examples that really ran"),
            number("backward", "passes", "backward passes over the examples that really ran"),
            number("seconds", "seconds", "for one model"),
        ),
        key=("method", "variant"),
    ),
    Table(
        "validation_heads",
        "a score of a head of a planted model",
        _MADE_BY,
        (
            METHOD,
            _VARIANT,
            integer("model_seed", "", "seed of the planted model"),
            *HEAD,
            string("work", "what the head does in that model"),
            string("truth", "which kind of head that is", among=_KINDS),
            number("score", "the method's", "how important the head is; more is more"),
            integer("rank", "", "1 for the most important head"),
        ),
        key=("method", "variant", "model_seed", "kind", "layer", "head"),
    ),
)

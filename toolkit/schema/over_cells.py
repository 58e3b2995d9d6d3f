"""Tables over many comparisons: what each cell of a study says, and what all say together."""

from __future__ import annotations

from headtool.schema.columns import Column, Table, boolean, integer, number, string
from headtool.schema.shared import METHOD, METRIC, interval

__all__ = ["OVER_CELLS"]

_MADE_BY = "`study report`, `report` of several runs"
_CELL = string("cell", "the comparison: a model, trained from one seed, on one task")
_METRIC = "the metric's"
_UNIT = "as `unit` of `study_design` says"
_PAIR = (string("method_x", "a method"), string("method_y", "another method"))


def _count(name: str, meaning: str) -> Column:
    return integer(name, "cells", meaning)


OVER_CELLS = (
    Table(
        "study_cells",
        "a cell: a comparison that the study is made of",
        _MADE_BY,
        (
            _CELL,
            string("model", "the model, without its seed"),
            string("replicate", "which training run of the model; empty where there is one"),
            string("task", "the task, or the data set"),
            METRIC,
            boolean("higher_is_better", "whether more of it is better"),
            integer("methods", "methods", "compared"),
            integer("heads", "heads", "up for removal"),
            integer("examples", "examples", "that curves are measured on", missing=True),
            number("whole", _METRIC, "the whole model's value"),
            number("none", _METRIC, "the value with no head"),
            number("seconds", "seconds", "that the comparison took, as far as its run says"),
        ),
        key=("cell",),
    ),
    Table(
        "study_results",
        "a method in a cell",
        _MADE_BY,
        (
            _CELL,
            METHOD,
            number("area", _METRIC, "between its curve and that of common random masks"),
            *interval("`area`", _METRIC),
            number(
                "advantage",
                "share",
                "`area` as a share of what all heads together are worth: the distance of `whole` "
                "to `none`",
            ),
            number("rank", "", "by `area` among the methods of the cell, 1 for the best"),
            number("p", "", "two-sided: could random masks do as well, or as badly"),
            number("p_holm", "", "the same, corrected by Holm over methods and cells"),
            number("p_bh", "", "the same, corrected by Benjamini-Hochberg over methods and cells"),
            string(
                "claim",
                "`better` or `worse` than random masks where `p_bh` is at most alpha, `open` else",
                among=("better", "worse", "open"),
            ),
            number("self_agreement", "coefficient", "tau-b of its ranks on two halves of the data"),
            number("cpr", "share", "circuit performance ratio; more is better"),
            number("cmd", "share", "circuit-model distance; less is better"),
            number("passes", "passes", "to score, forward and backward"),
            number("seconds", "seconds", "to score"),
        ),
        key=("cell", "method"),
    ),
    Table(
        "study_ranking",
        "a method over all cells",
        _MADE_BY,
        (
            METHOD,
            number("area", _UNIT, "mean over the units of its advantage over random masks"),
            *interval("`area`", _UNIT),
            number(
                "mean_rank",
                "",
                "over the blocks, 1 for the best; missing for a method that too few cells have",
            ),
            number("rank_among_all", "", "the same among all methods, in cells that have them all"),
            _count("cells", "in which it has a result"),
            _count("best", "in which it has the largest area, or one of several equal ones"),
            _count("better", "in which it is better than random masks"),
            _count("worse", "in which it is worse than random masks"),
            _count(
                "at_least",
                "in which it is better than random masks at least; more than the truth with "
                "probability alpha at most, for any method",
            ),
            number("self_agreement", "coefficient", "mean over cells"),
            number("seed_agreement", "coefficient", "mean tau-b of its ranks of heads over seeds"),
            number("seed_layers", "coefficient", "mean Spearman's rho of its ranks of layers"),
            number("cpr", "share", "mean over cells"),
            number("cmd", "share", "mean over cells"),
            number("passes", "passes", "median over cells"),
            number("seconds", "seconds", "median over cells"),
        ),
        key=("method",),
    ),
    Table(
        "study_design",
        "the design that means, ranks and tests over cells follow",
        _MADE_BY,
        (
            string("unit", "of `area`: the metric's name, or `share` of what all heads are worth"),
            string("levels", "what the units of the tests are: `model`, `task` or `replicate`"),
            integer("units", "units", "that are taken to be independent"),
            integer("blocks", "blocks", "that are ranked: models on tasks, the mean over seeds"),
            integer("methods", "methods", "ranked"),
            _count("cells", "that have all of these, and are ranked"),
            _count("cells_all", "that have all methods of the study"),
            number("statistic", "", "Friedman's chi-squared, ties corrected"),
            number("p", "", "its p-value, for independent blocks"),
            number("p_units", "", "p-value of the span of mean ranks, methods permuted by unit"),
            number("critical", "ranks", "Nemenyi's critical difference, for independent blocks"),
            number("critical_units", "ranks", "critical difference, methods permuted by unit"),
            number("alpha", "", "level of intervals and claims"),
            number("smallest_p", "", "the smallest `p` that the draws of the cells can give"),
        ),
        about="One row.",
    ),
    Table(
        "study_pairs",
        "a pair of methods over all cells",
        _MADE_BY,
        (
            *_PAIR,
            number("area", _UNIT, "mean over the units of the area between their curves"),
            *interval("`area`", _UNIT),
            number("rank_difference", "ranks", "mean rank of `method_y` minus that of `method_x`"),
            number("p_nemenyi", "", "of this difference, for independent blocks"),
            number("p_units", "", "of this difference, methods permuted by unit"),
            _count("cells", "that compare the two"),
            _count("better", "in which `method_x` is better, corrected over pairs and cells"),
            _count("worse", "in which `method_y` is better, corrected over pairs and cells"),
        ),
        about="A claim over all cells takes `p_units` of at most alpha. In single cells, p-values "
        "of the areas between two curves are corrected by Benjamini-Hochberg over pairs and cells.",
        key=("method_x", "method_y"),
    ),
    Table(
        "study_variance",
        "a part of the variance of the differences between methods",
        _MADE_BY,
        (
            string("part", "`methods`, `model`, `task`, `replicate`, `rest` or `examples`"),
            integer("levels", "levels", "of it: how many models, tasks, ..."),
            number("sd", _UNIT, "standard deviation of a method's advantage from it"),
            *interval("`sd`", _UNIT),
            number("share", "share", "of the variance"),
            string("reason", "why it cannot be told, or what is in it too; empty else"),
        ),
        about="A mixed model of the differences between methods within a cell, fitted by REML: "
        "`methods` is what holds in all cells, the other parts are random, and `examples` is known "
        "from the bootstrap in each cell.",
        key=("part",),
    ),
    Table(
        "study_budgets",
        "a method at a share of heads removed: what is left, over all cells",
        _MADE_BY,
        (
            METHOD,
            number("share", "share", "of the heads removed", known=True),
            number("value", _UNIT, "mean over the units of the metric, or of the share kept"),
            number("least", _UNIT, "the smallest value of a cell"),
            number("most", _UNIT, "the largest value of a cell"),
            _count("cells", "that it is the mean of"),
        ),
        about="Between the budgets of a cell, values are interpolated. Where cells have several "
        "metrics, it is the share kept: 1 for the whole model, 0 for the model with no head.",
        key=("method", "share"),
    ),
    Table(
        "study_seeds",
        "a method and two training runs of a model on a task: how alike it ranks their heads",
        _MADE_BY,
        (
            METHOD,
            string("model", "the model"),
            string("task", "the task"),
            string("replicate_x", "a training run"),
            string("replicate_y", "another one"),
            number("tau_b", "coefficient", "Kendall's tau-b over heads"),
            number("layer_spearman", "coefficient", "Spearman's rho over mean ranks of layers"),
        ),
        key=("method", "model", "task", "replicate_x", "replicate_y"),
    ),
    Table(
        "study_conclusions",
        "a statement that cells can bear out or contradict",
        _MADE_BY,
        (
            string("statement", "what is said, such as `A > B` or `A > random`"),
            _count("cells", "that can tell"),
            _count("hold", "in which it is shown"),
            _count("contradict", "in which the opposite is shown"),
            string(
                "where",
                "`everywhere` (all cells show it), `somewhere`, `mixed` (some show the opposite) "
                "or `nowhere`",
                among=("everywhere", "somewhere", "mixed", "nowhere"),
            ),
        ),
        key=("statement",),
    ),
)

"""The result of a comparison: one frame per question, and where they lie in a run.

``headtool compare`` writes these tables into its run directory, one Parquet file each, and whoever
reports on a comparison reads nothing else. Every table is there with all its columns, without rows
where it does not apply (agreement with one method, say).

Heads are named by ``kind``, ``layer`` and ``head`` everywhere, a ``budget`` is a number of heads
removed and ``share`` the same as a share of all heads that were up for removal. ``metric`` is
always the comparison's (``settings["metric"]``) where no column says otherwise, in its own unit.
A ``delta`` is masked minus whole; ``area`` and ``optimism`` are signed so that positive means
better for what they name, whatever the metric's direction. NaN is "not computed" or "undefined";
reasons are among ``settings["notes"]``.

===================  ===============================================================================
table                a row is
===================  ===============================================================================
splits               an example of a data set and what it was used for
sites                an attention site of the model, as `headtool.heads.AttentionSite` holds it
scores               a method's score of a head
ablation             the effect of closing one head, on one data set, by one metric
tests                the same tested, as ``headtool test`` prints it
agreement            a pair of methods: how alike they rank the heads
concordance          all methods together
overlap              a pair of methods at a budget: how alike the heads are that they keep
kept                 a method, a budget and a head: whether it stays
consensus            a budget and a head: how many methods keep it
curves               a method (or baseline) at a budget: what is left of the metric
curve_tests          a pair of curves, compared by the area between them
optimism             a method at a budget: how much selecting on the evaluation examples flatters it
stability            a method: how alike it ranks the heads on two sets of examples
subsamples           a method: how alike it ranks them on random halves of the selection examples
subsample_overlap    a method at a budget: how alike the heads are that it keeps on such halves
selection_frequency  a method, a budget and a head: on how many such halves it stays
subsample_scores     a method's score of a head on such a half
replicates           a model, trained with a seed of its own, and a metric: its value
replicate_scores     a method's score of a head of a model
replicate_agreement  a method and a pair of models: how alike it ranks the heads, and the layers
replicate_overlap    a method, a budget and a pair of models: how alike the heads are that it keeps
replicate_curves     a model and a method (or baseline) at a budget: what is left of the metric
additivity           a method at a budget: what its removed heads cost together, and one at a time
correlations         a pair of data sets: are the same heads important on both
failures             a method that failed, and why
roles                a head and a role: the evidence that it has it
role_survival        a method, a budget and a role: how many heads of the role stay
===================  ===============================================================================

Columns
-------
splits
    ``data`` (the data set's SPEC), ``example`` (its row there, from 0), ``split``: ``selection``
    (heads are scored on it) or ``evaluation`` (all else happens there). The n-th evaluation row of
    a data set is example n of its outcomes.
scores
    ``data`` (what the heads were scored on), ``method kind layer head score stderr rank``; rank 1
    is the most important head.
ablation
    ``data kind layer head delta stderr metric``: for every data set, on its evaluation examples,
    by the metric of the comparison and by the loss.
tests
    ``data``, then `headtool.analysis.assessment.TEST_COLUMNS`; by the metric of the comparison.
agreement
    ``method_x method_y heads``; for ``tau_b`` and ``spearman`` the coefficient with its interval
    over heads ``_low _high`` and two-sided permutation p-values ``_p`` (any order of the heads) and
    ``_p_within_layers`` (heads exchanged within their layers only); ``rbo`` (rank-biased overlap,
    extrapolated), ``rbo_expected`` under free permutation, ``rbo_p``, ``rbo_p_within_layers``.
concordance
    ``methods heads w w_p w_p_within_layers``: Kendall's W with ties; one row, or none.
overlap
    ``budget share method_x method_y kept`` (heads that each keeps) ``shared`` (heads that both
    keep) ``jaccard expected p_hypergeometric expected_within_layers p_within_layers``. One-sided
    p-values of sharing at least so many heads if the kept heads were drawn from all heads, or from
    the heads of each layer as many as each method keeps there; ``expected`` is the mean Jaccard
    index in the same two cases. Where nothing could differ, p is 1.
kept
    ``method budget share kind layer head kept``.
consensus
    ``budget share kind layer head methods_keeping methods status``; the status is
    ``consensus-kept`` (all methods keep it), ``consensus-removed`` (none does) or ``disputed``.
curves
    ``kind`` (which heads were up for removal: ``all`` or one attention kind), ``method``, ``draw``,
    ``budget share metric value delta low high``. Methods also are ``random`` (any heads) and
    ``random-matched:METHOD`` (in every layer as many heads as METHOD removes there): these have a
    row per ``draw`` from 0, and their mean at ``draw`` -1. Rows of methods have ``draw`` -1.
    ``low`` and ``high`` bound the *delta*, by a paired bootstrap over examples (for the mean of
    draws: over examples and draws), budget by budget; NaN for single draws.
curve_tests
    ``kind method_x method_y area low high p p_adjusted draws_beaten draws p_draws``: pairs of
    methods, and each method against ``random`` and its ``random-matched:METHOD``. ``area`` is the
    mean distance between the two curves over the shares removed, positive where method_x keeps more
    of the metric; p is two-sided, from the same bootstrap as the interval; ``p_adjusted`` is Holm's
    over the rows of a kind. ``draws_beaten`` counts the random draws with a smaller area than
    method_x, and ``p_draws`` is ``(1 + draws - draws_beaten) / (1 + draws)``: could a random draw
    do as well (NaN for pairs of methods)? A method beats a baseline if both p-values are small.
optimism
    ``method budget share selection evaluation optimism low high``: two deltas on the evaluation
    examples, that of the heads which the method selects on these examples themselves, and that of
    the heads which it selects on the selection examples (as everywhere else). Optimism is their
    difference, positive where selecting and evaluating on the same examples looks better.
stability
    ``method``, then the columns of ``agreement`` from ``heads`` on: a method's ranking on the
    selection examples against its own on the evaluation examples. No two methods can be expected to
    agree better than each does with itself.
subsamples, subsample_overlap, selection_frequency, subsample_scores
    With ``compare --stability N``, else without rows: every method scores the heads again on N
    random halves of the selection examples, which are pairs without a common example. `stability`
    compares two sets once, each as large as what selected the heads; these compare many of half
    that size, show which heads a method keeps whatever the examples, and vary a random method's
    seed as well. Columns as in `headtool.analysis.subsampling`: agreement is the mean over the
    pairs of halves, and ``rbo_expected`` its value for heads in any order; ``times`` counts the
    halves on which a head stays; ``false_kept`` and ``false_removed`` bound how many of the stable
    heads are to be expected by chance.
replicates, replicate_scores, replicate_agreement, replicate_overlap, replicate_curves
    With ``compare --replicate SPEC``, else without rows: the same architecture trained again,
    scored on the same selection examples and evaluated on the same evaluation examples, each model
    with what is selected by its own scores. The model compared is among them, as the first.
    ``replicates``: ``model sha256 metric value``. ``replicate_scores``: ``model``, then the columns
    of ``scores`` without ``data``. ``replicate_agreement`` and ``replicate_overlap``: ``method``,
    then the columns of ``agreement`` and ``overlap`` with models instead of methods, and for
    rankings ``layers layer_tau_b layer_tau_b_p layer_spearman layer_spearman_p`` of the mean ranks
    of the layers: heads have a counterpart in another model only if both were fine-tuned from one
    pretrained model, layers always have. ``replicate_curves``: ``model``, then the columns of
    ``curves`` without ``draw``, means over draws alone. With replicates, ``curve_tests`` of the
    kind ``all`` compares curves averaged over the models, by resampling models and examples.
additivity
    ``method budget share joint sum_of_singles gap low high``: the delta of the method's mask, the
    sum of the deltas of its heads one at a time, and joint minus sum with its bootstrap interval.
    These are deltas: for metrics where higher is better, a negative gap means that the heads
    together cost more than their sum.
correlations
    `headtool.analysis.correlation.CORRELATION_COLUMNS`; empty with one data set.
failures
    ``stage method error``.
roles
    `headtool.analysis.roles.ROLE_COLUMNS`; of roles that were given, and empty without.
role_survival
    `headtool.analysis.roles.SURVIVAL_COLUMNS`, made of ``roles`` and ``kept``.

Beside them the run holds per-example outcomes: ``outcomes`` (single heads on the first data set, so
that ``headtool test RUN`` works), ``outcomes.2`` ... (further data sets), ``curve_outcomes``
(every mask of the curves on the first data set), and each method's own tables as ``METHOD.TABLE``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtool.errors import HeadtoolError

if TYPE_CHECKING:
    import pandas as pd

    from headtool.results.runs import Run

__all__ = ["TABLES", "Comparison", "read_comparison"]

TABLES = (
    "splits",
    "sites",
    "scores",
    "ablation",
    "tests",
    "agreement",
    "concordance",
    "overlap",
    "kept",
    "consensus",
    "curves",
    "curve_tests",
    "optimism",
    "stability",
    "subsamples",
    "subsample_overlap",
    "selection_frequency",
    "subsample_scores",
    "replicates",
    "replicate_scores",
    "replicate_agreement",
    "replicate_overlap",
    "replicate_curves",
    "additivity",
    "correlations",
    "failures",
    "roles",
    "role_survival",
)

# What the JSON document leaves out is in the run: which example is in which half, the sites, and
# the evidence of roles, which the command ``roles`` prints.
_DOCUMENTS = {
    "compare": (
        "headtool/comparison/1",
        [name for name in TABLES if name not in ("splits", "sites", "roles")],
    ),
    "curve": ("headtool/curves/1", ["curves", "curve_tests", "kept", "scores", "failures"]),
}


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """What several methods say about the heads of one model, and how far it holds.

    The frames are described at the top of this module.

    Attributes
    ----------
    splits, sites, scores, ablation, tests, agreement, concordance, overlap, kept, consensus
        See the module.
    curves, curve_tests, optimism, stability, additivity, correlations, failures
        See the module.
    subsamples, subsample_overlap, selection_frequency, subsample_scores
        See the module.
    replicates, replicate_scores, replicate_agreement, replicate_overlap, replicate_curves
        See the module.
    roles, role_survival
        See the module.
    settings
        What was asked for and found, as JSON: ``command`` (``compare``, or ``curve``, whose other
        tables have no rows), ``metric``, ``higher_is_better``, ``methods`` (names in the order
        given, without those that failed), ``data`` (SPECs, the first is the one of
        the curves), ``select_data`` (None where the first data set was split), ``whole`` (SPEC to
        metric to the whole model's value on the evaluation examples), ``budgets``, ``heads`` (how
        many were up for removal), ``steps``, ``iterative``, ``keep_one_per_layer``, ``per_kind``,
        ``draws``, ``seed``, ``resamples``, ``alpha``, ``margin``, ``stability`` (halves of the
        selection examples), ``replicates`` (SPEC to SHA-256 of all models, where there are
        several), ``tests`` (SPEC to which test,
        interval and correction was used), ``notes`` (lines for the reader), ``model``
        (provenance), ``sources`` (the data sets' provenance by SPEC), ``selection_source`` (of the
        examples that select), ``provenance`` (by method),
        ``versions``; and where roles were given, ``roles`` (their provenance).
    command
        The command that makes it again; empty where there was none.
    created
        When the run was written, ISO 8601 in UTC; empty where it was not.
    folder
        The run directory; None where nothing was written.
    """

    splits: pd.DataFrame
    sites: pd.DataFrame
    scores: pd.DataFrame
    ablation: pd.DataFrame
    tests: pd.DataFrame
    agreement: pd.DataFrame
    concordance: pd.DataFrame
    overlap: pd.DataFrame
    kept: pd.DataFrame
    consensus: pd.DataFrame
    curves: pd.DataFrame
    curve_tests: pd.DataFrame
    optimism: pd.DataFrame
    stability: pd.DataFrame
    subsamples: pd.DataFrame
    subsample_overlap: pd.DataFrame
    selection_frequency: pd.DataFrame
    subsample_scores: pd.DataFrame
    replicates: pd.DataFrame
    replicate_scores: pd.DataFrame
    replicate_agreement: pd.DataFrame
    replicate_overlap: pd.DataFrame
    replicate_curves: pd.DataFrame
    additivity: pd.DataFrame
    correlations: pd.DataFrame
    failures: pd.DataFrame
    roles: pd.DataFrame
    role_survival: pd.DataFrame
    settings: Mapping[str, Any] = field(default_factory=dict)
    command: str = ""
    created: str = ""
    folder: Path | None = None

    def __repr__(self) -> str:
        """Name what was compared; the frames would fill pages."""
        settings = self.settings
        model, data = settings.get("model", {}).get("spec"), ", ".join(settings.get("data", ()))
        return f"Comparison({', '.join(settings.get('methods', ()))} on {model} with {data})"

    def _repr_html_(self) -> str:
        """Show the curves, and count verdicts and disputed heads, in a notebook."""
        from headtool.results.display import html_result

        methods = [str(name) for name in self.settings.get("methods", ())]
        curves = self.curves[(self.curves["kind"] == "all") & (self.curves["draw"] == -1)]
        names = [name for name in (*methods, "random") if (curves["method"] == name).any()]
        wide = curves.pivot(index="share", columns="method", values="value")
        rows = [
            (f"{share:.0%}", *(float(wide.loc[share, name]) for name in names))
            for share in wide.index
        ]
        lines = []
        for spec, part in self.tests.groupby("data", sort=False):
            counts = part["verdict"].value_counts()
            lines.append(f"{spec}: {', '.join(f'{n} {name}' for name, n in counts.items())}")
        lines += [
            f"{row['method']} failed: {row['error']}" for row in self.failures.to_dict("records")
        ]
        title = f"{self.settings.get('metric')} by share of heads removed"
        return html_result(title, ("removed", *names), rows, lines=lines)

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """The frames by name."""
        return {name: getattr(self, name) for name in TABLES}

    def document(self) -> dict[str, Any]:
        """Return the comparison as JSON can hold it: schema, settings, and rows by table.

        The format is ``headtool/comparison/1``, or ``headtool/curves/1`` of ``curve``.
        """
        from headtool.results.scores import json_rows

        schema, tables = _DOCUMENTS[str(self.settings["command"])]
        return {
            "schema": schema,
            "provenance": dict(self.settings),
            **{name: json_rows(self.tables[name]) for name in tables},
        }


def read_comparison(source: Path | Run) -> Comparison:
    """Read a comparison from its run directory.

    Raises
    ------
    HeadtoolError
        If there is no run, it is damaged or of another version, or it holds no comparison.
    """
    from headtool.results.runs import read_run

    run = read_run(source) if isinstance(source, Path) else source
    provenance = run.manifest.get("provenance", {})
    settings = provenance.get("compare", provenance.get("curve"))
    missing = [name for name in TABLES if name not in run.manifest["tables"]]
    if not isinstance(settings, dict) or missing:
        raise HeadtoolError(
            f"{run.folder} holds no comparison; make one with headtool compare --out DIR"
        )
    return Comparison(
        **{name: run.table(name) for name in TABLES},
        settings=settings,
        command=str(run.manifest.get("command", "")),
        created=str(run.manifest.get("created", "")),
        folder=run.folder,
    )

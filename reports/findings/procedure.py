"""How the numbers were made, in a paragraph, and whom to cite for it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from headtool.reports.contents.facts import margin_of
from headtool.reports.contents.run import Contents
from headtool.reports.wording.words import count, filled, given, how_drawn, listed, names

__all__ = ["Procedure", "describe_procedure"]


@dataclass(frozen=True)
class Procedure:
    """Sentences on the procedure, and the references that they rest on.

    Attributes
    ----------
    sentences
        How the numbers were made.
    references
        What to cite for it.
    """

    sentences: tuple[str, ...]
    references: tuple[str, ...]


_TESTS = {
    "mcnemar": (
        "an exact McNemar test",
        "McNemar (1947), Note on the sampling error of the difference between correlated "
        "proportions or percentages. Psychometrika 12.",
    ),
    "mcnemar-midp": (
        "a mid-p McNemar test",
        "Fagerland, Lydersen & Laake (2013), The McNemar test for binary matched-pairs data. "
        "BMC Medical Research Methodology 13.",
    ),
    "sign-flip": (
        "a sign-flip permutation test",
        "Fisher (1935), The Design of Experiments, sec. 21.",
    ),
    "randomisation": (
        "approximate randomisation",
        "Riezler & Maxwell (2005), On some pitfalls in automatic evaluation and significance "
        "testing for MT.",
    ),
}
_INTERVALS = {
    "newcombe": (
        "Newcombe's score intervals",
        "Newcombe (1998), Improved confidence intervals for the difference between binomial "
        "proportions based on paired data. Statistics in Medicine 17.",
    ),
    "percentile": (
        "percentile intervals of a paired bootstrap",
        "Koehn (2004), Statistical significance tests for machine translation evaluation. EMNLP.",
    ),
    "bca": (
        "BCa intervals of a paired bootstrap",
        "Efron (1987), Better bootstrap confidence intervals. JASA 82.",
    ),
}
_CORRECTIONS = {
    "westfall-young": (
        "the step-down correction of Westfall and Young",
        "Westfall & Young (1993), Resampling-Based Multiple Testing. Wiley.",
    ),
    "holm": (
        "Holm's correction",
        "Holm (1979), A simple sequentially rejective multiple test procedure. "
        "Scandinavian Journal of Statistics 6.",
    ),
    "bh": (
        "the correction of Benjamini and Hochberg",
        "Benjamini & Hochberg (1995), Controlling the false discovery rate. JRSS B 57.",
    ),
    "by": (
        "the correction of Benjamini and Yekutieli",
        "Benjamini & Yekutieli (2001), The control of the false discovery rate in multiple "
        "testing under dependency. Annals of Statistics 29.",
    ),
    "none": ("no correction", ""),
}
_NONINFERIORITY = (
    "Schuirmann (1987), A comparison of the two one-sided tests procedure and the power approach. "
    "Journal of Pharmacokinetics and Biopharmaceutics 15."
)
_TAU = "Kendall (1945), The treatment of ties in ranking problems. Biometrika 33."
_RBO = (
    "Webber, Moffat & Zobel (2010), A similarity measure for indefinite rankings. "
    "ACM Transactions on Information Systems 28."
)
_MICHEL = "Michel, Levy & Neubig (2019), Are sixteen heads really better than one? NeurIPS."
_HALVING = "Karnin, Koren & Somekh (2013), Almost optimal exploration in multi-armed bandits. ICML."
_SEQUENTIAL = "Besag & Clifford (1991), Sequential Monte Carlo p-values. Biometrika."
_VOITA = (
    "Voita, Talbot, Moiseev, Sennrich & Titov (2019), Analyzing multi-head self-attention: "
    "specialized heads do the heavy lifting, the rest can be pruned. ACL."
)
_SPEARMAN = (
    "Spearman (1904), The proof and measurement of association between two things. "
    "American Journal of Psychology 15."
)
_STABILITY_SELECTION = "Meinshausen & Bühlmann (2010), Stability selection. JRSS B 72."
_PAIRS = (
    "Shah & Samworth (2013), Variable selection with error control: another look at stability "
    "selection. JRSS B 75."
)
_TWO_FACTORS = "Owen (2007), The pigeonhole bootstrap. Annals of Applied Statistics 1."
_RESAMPLED = "Nadeau & Bengio (2003), Inference for the generalization error. Machine Learning 52."


def describe_procedure(contents: Contents) -> Procedure:
    """Say how the run's tables were made."""
    said: list[str] = []
    cited: list[str] = []
    if how := filled(contents.settings.get("replacement")):
        said.append(f"A closed head put out {how}.")
    for part in (_scoring, _testing, _comparing, _subsampling, _pruning, _looking, _correlating):
        sentences, references = part(contents)
        said += sentences
        cited += references
    return Procedure(tuple(said), tuple(dict.fromkeys(line for line in cited if line)))


_Part = tuple[list[str], list[str]]


def _scoring(contents: Contents) -> _Part:
    if "scores" not in contents.tables:
        return [], []
    known, cited = [], []
    for method in contents.methods:
        how = contents.described("provenance").get(method)
        summary, reference = (
            str(how.get(part) or "") if isinstance(how, Mapping) else ""
            for part in ("summary", "reference")
        )
        known.append(f"{method} ({summary})" if summary else method)
        cited += [f"{method}: {reference}"] if reference else []
    said = [f"Heads were scored by {listed(known)}; a higher score means a more important head."]
    splits = contents.tables.get("splits")
    if splits is not None and len(splits):
        chosen = int((splits["split"] == "selection").sum())
        judged = int((splits["split"] == "evaluation").sum())
        said.append(
            f"Heads were selected on {chosen} examples; all else was measured on {judged} others."
        )
    short = names(contents.data)
    for spec, source in contents.described("sources").items():
        if isinstance(source, Mapping) and (how := how_drawn(source)):
            said.append(f"The examples of {short.get(spec, spec)} are {how}.")
    return said, cited


def _testing(contents: Contents) -> _Part:
    if "tests" not in contents.tables:
        return [], []
    said, cited = [], []
    short = names(contents.data)
    used = contents.described("tests")
    distinct: dict[tuple[str, str, str], list[str]] = {}
    for spec, how in used.items():
        if isinstance(how, Mapping):
            key = tuple(str(how.get(part)) for part in ("test", "interval", "correction"))
            distinct.setdefault((key[0], key[1], key[2]), []).append(short.get(spec, spec))
    for (test, interval, correction), specs in distinct.items():
        known = (
            _TESTS.get(test, (test, "")),
            _INTERVALS.get(interval, (interval, "")),
            _CORRECTIONS.get(correction, (correction, "")),
        )
        where = "" if len(distinct) == 1 else f" on {listed(specs)}"
        said.append(
            f"Each head was closed alone, and the change of {contents.measure}{where} tested by "
            f"{known[0][0]} with {known[2][0]} over all heads, and {known[1][0]} for each head."
        )
        cited += [reference for _, reference in known]
    margin = margin_of(contents)
    within = "" if math.isnan(margin) else f" of {given(margin)}"
    said.append(
        f"A head is removable if its loss is shown to be smaller than the margin{within}, "
        "which takes more than a test that is not significant."
    )
    return said, [*cited, _NONINFERIORITY]


def _comparing(contents: Contents) -> _Part:
    if "agreement" not in contents.tables:
        return [], []
    said = (
        "Rankings were compared by Kendall's tau-b, Spearman's rho, rank-biased overlap and "
        "Kendall's W, with p-values from permutations of the heads, freely and within their "
        "layers; kept sets by their Jaccard index against sets drawn at random, overall and "
        "within layers."
    )
    return [said], [_TAU, _RBO]


def _subsampling(contents: Contents) -> _Part:
    if "subsamples" not in contents.tables:
        return [], []
    said = (
        "Stability was measured on complementary pairs of random halves of the selection examples; "
        "how many heads are stable by chance is bounded by theorem 1 of Shah & Samworth, and "
        "intervals take the correction of Nadeau & Bengio for resamples of the same examples."
    )
    return [said], [_STABILITY_SELECTION, _PAIRS, _RESAMPLED]


_CHAINS = (
    "corrected by Holm over the methods, each of which is compared with any heads first and then "
    "with those of its layers"
)


def _pruning(contents: Contents) -> _Part:
    if "curves" not in contents.tables:
        return [], []
    settings = contents.settings
    how = []
    if settings.get("iterative"):
        how.append("scoring the rest again after every step")
    if settings.get("keep_one_per_layer"):
        how.append("keeping at least one head of every layer")
    by = f", {listed(how)}" if how else ""
    said = [f"Pruning curves close the heads with the lowest scores first{by}."]
    draws, resamples = settings.get("draws"), settings.get("resamples")
    if isinstance(draws, int) and draws:
        said.append(
            f"They are set against {count(draws, 'draw')} of random masks for every budget: of any "
            "heads, and of as many heads per layer as the method closes there. A method is called "
            "better or worse than random if too few draws do as well, or as badly: two-sided, "
            f"{_CHAINS}."
        )
    plan, cited = settings.get("draws_plan"), []
    if draws is None and isinstance(plan, Mapping):
        points = listed([f"{budget}" for budget in plan["budgets"]])
        rounds = plan.get("rounds")
        if rounds:
            against = (
                f"{count(plan['most'], 'draw')} of random masks at {points} heads removed. All are "
                f"run on {count(rounds[0]['examples'], 'example')}, and those that do best, or "
                f"worst, on up to {rounds[-1]['examples']}"
            )
            cited.append(_HALVING)
        else:
            against = (
                f"up to {count(plan['most'], 'draw')} of random masks, made until each comparison "
                f"is settled, at {points} heads removed, on "
                f"{count(sum(plan['examples']), 'example')} in all"
            )
            cited.append(_SEQUENTIAL)
        said.append(
            f"They are set against {against}, drawn beforehand: of any heads, and for methods that "
            "are better than these, of as many heads per layer as the method closes there. "
            f"P-values are two-sided, {_CHAINS}. The curve of random masks is a mean over random "
            "orders of the heads, on all examples."
        )
    by = f" of {resamples} resamples" if isinstance(resamples, int) else ""
    if len(contents.described("replicates")) > 1:
        by += " (areas are means over the models, which are resampled as well)"
        cited.append(_TWO_FACTORS)
    said.append(
        f"Bands and areas between curves come from a paired bootstrap over examples{by}; p-values "
        "of areas are corrected by Holm."
    )
    return said, [_MICHEL, _INTERVALS["percentile"][1], _CORRECTIONS["holm"][1], *cited]


def _looking(contents: Contents) -> _Part:
    if "roles" not in contents.tables:
        return [], []
    options = contents.roles.get("options")
    how = options if isinstance(options, Mapping) else {}
    correction, citation = _CORRECTIONS.get(str(how.get("correction")), ("a correction", ""))
    alpha = how.get("alpha")
    level = f" at {given(float(alpha))}" if isinstance(alpha, int | float) else ""
    said = [
        "The role of a head is where its largest attention weights lie: it has one if enough of "
        "its queries fit, and more than a baseline's by a test with sentences as units, with "
        f"{correction} within each role{level}."
    ]
    if "role_survival" not in contents.tables:
        return said, [_VOITA, citation]
    said.append(
        "Heads of a role that stay were held against as many heads drawn at random in each layer "
        "as stay there, exactly (a sum of hypergeometric numbers), with Holm's correction."
    )
    return said, [_VOITA, citation, _CORRECTIONS["holm"][1]]


def _correlating(contents: Contents) -> _Part:
    if "correlations" not in contents.tables:
        return [], []
    said = (
        "What single heads are worth on different data was correlated with intervals from a "
        "bootstrap over examples; the noise ceiling is the square root of the product of the "
        "split-half reliabilities, stepped up by the Spearman-Brown formula."
    )
    return [said], [_SPEARMAN]

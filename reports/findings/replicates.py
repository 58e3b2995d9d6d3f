"""What models of other training seeds say, in words."""

from __future__ import annotations

from headtool.reports.blocks import Finding
from headtool.reports.contents.facts import alpha_of, whole_models
from headtool.reports.contents.run import Contents
from headtool.reports.wording.words import count, given, listed, number

__all__ = ["replicate_finding"]

_FEW = 10  # models, as in the notes of a comparison


def replicate_finding(contents: Contents) -> Finding | None:
    """How alike heads and layers are ranked in models trained with other seeds."""
    whole = whole_models(contents)
    if len(whole) < 2:
        return None
    pairs = contents.table("replicate_agreement")
    ends = [number(float(end)) for end in (whole["value"].min(), whole["value"].max())]
    headline = (
        f"Over {count(len(whole), 'model')} trained with different seeds ({contents.measure} "
        f"{' to '.join(dict.fromkeys(ends))})"
    )
    if pairs.empty:
        return Finding("replicates", f"{headline}, no ranking could be compared.")
    by_method = pairs.groupby("method", sort=False)[["tau_b", "layer_spearman"]].mean()
    heads = [f"{number(row['tau_b'])} for {name}" for name, row in by_method.iterrows()]
    headline += f", rankings of the heads agree with a mean tau-b of {listed(heads)}"
    layers = [f"{number(row['layer_spearman'])} for {n}" for n, row in by_method.iterrows()]
    if by_method["layer_spearman"].notna().any():
        headline += f", rankings of the layers with a mean Spearman correlation of {listed(layers)}"
    alpha = alpha_of(contents)
    beyond = int((pairs["tau_b_p_within_layers"] < alpha).sum())
    detail = (
        "Heads of one layer have no counterpart in a model that was trained from another "
        "initialisation: nothing tells which is which, and rankings of heads then agree as far as "
        "layers do, and no further. Only models fine-tuned from one pretrained model share the "
        f"identity of their heads. Beyond what layers explain, {beyond} of {len(pairs)} pairs of "
        f"rankings agree (tau-b, heads permuted within layers, p < {given(alpha)}, not corrected). "
        "Layers are compared by the mean rank of their heads, which needs no counterparts. "
        "Areas between curves in this report are means over the models, tested by resampling "
        "models and examples."
    )
    if len(whole) < _FEW:
        detail += (
            f" {len(whole)} models are few: for other training runs, the intervals and p-values of "
            "areas are too small."
        )
    return Finding("replicates", f"{headline}.", detail)

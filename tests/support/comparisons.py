"""A saved comparison of made-up numbers: quick, of any size, and with any names."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from headtool.masks.keeping import budgets_at_shares
from headtool.results.runs import Run, write_run
from headtool.schema import TABLES

from .tables import completed

METHODS = ("gradient", "ablation", "gates", "confidence")
DATA = ("data/news.tsv", "data/reviews.tsv")
KINDS = {"enc-self": (6, 12)}
SHA = "0123456789abcdef" * 4


def write_comparison(folder: Path, *, force: bool = False, **options: Any) -> Run:
    """Write a synthetic comparison as a run; `options` are those of `comparison`."""
    tables, settings = comparison(**options)
    return write_run(
        folder,
        command=options.get("command", "headtool compare --method gradient,ablation --out run"),
        provenance={"compare": settings},
        tables=tables,
        force=force,
    )


def comparison(
    *,
    methods: Sequence[str] = METHODS,
    data: Sequence[str] = DATA,
    kinds: Mapping[str, tuple[int, int]] = KINDS,
    model: str = "models/sentiment",
    draws: int = 399,
    failures: Sequence[tuple[str, str, str]] = (),
    notes: Sequence[str] = (),
    winners: int = 2,
    seed: int = 0,
    command: str = "",
) -> tuple[dict[str, pd.DataFrame], dict[str, Any]]:
    """Tables and settings of a comparison; the first `winners` methods beat random masks."""
    rng = np.random.default_rng(seed)
    heads = [
        (kind, layer, head)
        for kind, (layers, width) in kinds.items()
        for layer in range(layers)
        for head in range(width)
    ]
    worth = 0.03 * rng.standard_gamma(0.25, len(heads))
    budgets = [round(len(heads) * step / 10) for step in range(10)]
    scores = _scores(rng, methods, heads, worth, data[0])
    kept = _kept(scores, budgets, len(heads))
    tables = {
        "splits": pd.DataFrame(
            [(d, i, "selection" if i % 2 else "evaluation") for d in data for i in range(20)],
            columns=["data", "example", "split"],
        ),
        "sites": pd.DataFrame(
            [
                (kind, layer, width, width, 8, f"{kind}.{layer}.out")
                for kind, (layers, width) in kinds.items()
                for layer in range(layers)
            ],
            columns=["kind", "layer", "n_heads", "n_kv_heads", "head_dim", "projection"],
        ),
        "scores": scores,
        "ablation": _ablation(rng, heads, worth, data),
        "tests": _tests(rng, heads, worth, data),
        "agreement": _agreement(rng, methods, len(heads)),
        "stability": _stability(methods, len(heads)),
        "concordance": _concordance(methods, len(heads)),
        "overlap": _overlap(kept, methods, budgets, len(heads)),
        "kept": kept,
        "consensus": _consensus(kept, methods),
        "curves": _curves(methods, budgets, len(heads)),
        "curve_tests": _curve_tests(methods, draws, winners),
        "optimism": _paired(methods, budgets, len(heads), "selection", "evaluation", "optimism"),
        "additivity": _paired(methods, budgets, len(heads), "joint", "sum_of_singles", "gap"),
        "faithfulness": _faithfulness(methods, len(heads)),
        "faithfulness_areas": _faithfulness_areas(methods),
        "correlations": _correlations(data, len(heads)),
        "failures": pd.DataFrame(failures, columns=["stage", "method", "error"]),
    }
    return tables, _settings(methods, data, heads, model, draws, budgets, notes)


def _faithfulness(methods, heads) -> pd.DataFrame:
    rows = []
    for place, method in enumerate([*methods, "random"]):
        for budget in sorted(set(budgets_at_shares(heads)), reverse=True):
            share = 1 - budget / heads
            value = 0.5 + 0.412 * share ** (0.2 + 0.1 * place)
            faithful = (value - 0.5) / 0.412
            ends = (faithful - 0.05, faithful + 0.05)
            rows.append(("all", method, heads - budget, share, "accuracy", value, faithful, *ends))
    return TABLES["faithfulness"].frame(rows)


def _faithfulness_areas(methods) -> pd.DataFrame:
    rows = []
    for place, method in enumerate([*methods, "random"]):
        cpr, none = 0.9 - 0.05 * place, math.nan
        beaten = (none,) * 3 if method == "random" else (5.0 - place, 4.0, 5.0)
        areas = (cpr, cpr - 0.1, cpr + 0.1, 1 - cpr, 0.9 - cpr, 1.1 - cpr)
        rows.append(("all", method, *areas, *beaten, 0.912, 0.5, ""))
    return TABLES["faithfulness_areas"].frame(rows)


def _settings(methods, data, heads, model, draws, budgets, notes) -> dict[str, Any]:
    source = {
        spec: {"spec": spec, "examples": 872, "truncated": 0, "sha256": SHA[::-1]} for spec in data
    }
    versions = {"python": "3.11.2", "headtool": "0.1.0", "torch": "2.13.0"}
    described = {
        "spec": model,
        "library": "transformers",
        "class": "BertForSequenceClassification",
        "task": "classification",
        "labels": 2,
        "dtype": "float32",
        "device": "cpu",
        "sha256": SHA,
    }
    return {
        "metric": "accuracy",
        "higher_is_better": True,
        "methods": list(methods),
        "data": list(data),
        "select_data": None,
        "whole": {spec: {"accuracy": 0.912, "loss": 0.24} for spec in data},
        "budgets": budgets,
        "heads": len(heads),
        "steps": "10%",
        "iterative": False,
        "keep_one_per_layer": False,
        "per_kind": False,
        "draws": draws,
        "seed": 0,
        "resamples": 2000,
        "alpha": 0.05,
        "margin": 0.01,
        "tests": {
            spec: {"test": "mcnemar", "interval": "newcombe", "correction": "westfall-young"}
            for spec in data
        },
        "notes": list(notes),
        "model": described,
        "sources": source,
        "provenance": {
            name: {"method": name, "options": {"variant": "plain"}, "seed": 0, "versions": versions}
            for name in methods
        },
        "versions": versions,
    }


def _scores(rng, methods, heads, worth, spec) -> pd.DataFrame:
    frames = []
    for number, method in enumerate(methods):
        noise = rng.normal(scale=0.004 * (1 + number), size=len(heads))
        score = np.abs(worth + noise)
        rank = np.empty(len(heads), dtype=int)
        rank[np.argsort(-score, kind="stable")] = np.arange(1, len(heads) + 1)
        frame = pd.DataFrame(heads, columns=["kind", "layer", "head"])
        stderr = math.nan if number == 2 else score / 9 + 1e-4
        frame = frame.assign(score=score, stderr=stderr, rank=rank)
        frame.insert(0, "method", method)
        frame.insert(0, "data", spec)
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def _ablation(rng, heads, worth, data) -> pd.DataFrame:
    frames = []
    for spec in data:
        delta = -worth + rng.normal(scale=0.002, size=len(heads))
        for metric, values in (("accuracy", delta), ("loss", -3 * delta)):
            frame = pd.DataFrame(heads, columns=["kind", "layer", "head"])
            frame.insert(0, "data", spec)
            frames.append(frame.assign(delta=values, stderr=0.002, metric=metric))
    return pd.concat(frames, ignore_index=True)


def _tests(rng, heads, worth, data) -> pd.DataFrame:
    frames = []
    for number, spec in enumerate(data):
        delta = -worth + rng.normal(scale=0.002, size=len(heads))
        stderr = rng.uniform(0.001, 0.006, len(heads))
        low, high = delta - 2 * stderr, delta + 2 * stderr
        p = np.array([math.erfc(abs(z) / math.sqrt(2)) for z in delta / stderr])
        adjusted = np.minimum(1.0, p * len(heads))
        verdict = np.where(
            (adjusted < 0.05) & (delta < 0),
            "needed",
            np.where(low > -0.01, "removable", "undecided"),
        ).astype(object)
        verdict[(number + 5) % len(heads)] = "harmful"
        frame = pd.DataFrame(heads, columns=["kind", "layer", "head"])
        frame.insert(0, "data", spec)
        frames.append(
            frame.assign(
                delta=delta,
                ci_low=low,
                ci_high=high,
                p=p,
                p_adjusted=adjusted,
                verdict=verdict,
                mde=4 * stderr,
                stderr=stderr,
                n_differing=rng.integers(0, 90, len(heads)),
                p_noninferior=p / 2,
                p_noninferior_adjusted=adjusted / 2,
                p_equivalent=p / 2,
                examples_needed=np.where(verdict == "undecided", 5000.0, math.nan),
            )
        )
    return pd.concat(frames, ignore_index=True)


def _agreement(rng, methods, heads) -> pd.DataFrame:
    rows = []
    for number, (x, y) in enumerate(itertools.combinations(methods, 2)):
        row: dict[str, Any] = {"method_x": x, "method_y": y, "heads": heads}
        for name, value in (("tau_b", 0.6 - 0.1 * number), ("spearman", 0.7 - 0.1 * number)):
            row |= {
                name: value,
                f"{name}_low": value - 0.1,
                f"{name}_high": value + 0.1,
                f"{name}_p": 0.0004 + 0.01 * number,
                f"{name}_p_within_layers": 0.004 + 0.03 * number,
            }
        row |= {"rbo": 0.5 - 0.05 * number, "rbo_expected": 0.2}
        row |= {"rbo_p": 0.001, "rbo_p_within_layers": 0.01}
        rows.append(row)
    names = ["tau_b", "spearman"]
    columns = [
        *("method_x", "method_y", "heads"),
        *(n + part for n in names for part in ("", "_low", "_high", "_p", "_p_within_layers")),
        *("rbo", "rbo_expected", "rbo_p", "rbo_p_within_layers"),
    ]
    return pd.DataFrame(rows, columns=columns)


def _stability(methods, heads) -> pd.DataFrame:
    rows = []
    for number, method in enumerate(methods):
        row: dict[str, Any] = {"method": method, "heads": heads}
        for name in ("tau_b", "spearman", "rbo"):
            row[name] = 0.9 - 0.1 * number
        rows.append(row)
    return completed("stability", pd.DataFrame(rows))


def _concordance(methods, heads) -> pd.DataFrame:
    columns = ["methods", "heads", "w", "w_p", "w_p_within_layers"]
    rows = [(len(methods), heads, 0.52, 0.0001, 0.003)] if len(methods) > 1 else []
    return pd.DataFrame(rows, columns=columns)


def _kept(scores, budgets, count) -> pd.DataFrame:
    frames = []
    for method, part in scores.groupby("method", sort=False):
        for budget in budgets:
            frame = part[["kind", "layer", "head"]].copy()
            frame["kept"] = (part["rank"] <= count - budget).to_numpy()
            frame.insert(0, "share", budget / count)
            frame.insert(0, "budget", budget)
            frame.insert(0, "method", method)
            frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def _overlap(kept, methods, budgets, count) -> pd.DataFrame:
    masks = {
        (method, budget): part["kept"].to_numpy()
        for (method, budget), part in kept.groupby(["method", "budget"], sort=False)
    }
    rows = []
    for budget in budgets:
        for x, y in itertools.combinations(methods, 2):
            a, b = masks[x, budget], masks[y, budget]
            both, either = int((a & b).sum()), int((a | b).sum())
            jaccard = both / either if either else math.nan
            rows.append(
                (budget, budget / count, x, y, int(a.sum()), both, jaccard, 0.4, 0.01, 0.5, 0.04)
            )
    return pd.DataFrame(
        rows,
        columns=[
            *("budget", "share", "method_x", "method_y", "kept", "shared", "jaccard", "expected"),
            *("p_hypergeometric", "expected_within_layers", "p_within_layers"),
        ],
    )


def _consensus(kept, methods) -> pd.DataFrame:
    rows = []
    for place, part in kept.groupby(["budget", "share", "kind", "layer", "head"], sort=False):
        number = int(part["kept"].sum())
        status = {0: "consensus-removed", len(methods): "consensus-kept"}.get(number, "disputed")
        rows.append((*place, number, len(methods), status))
    columns = ["budget", "share", "kind", "layer", "head", "methods_keeping", "methods", "status"]
    return pd.DataFrame(rows, columns=columns)


def _curves(methods, budgets, count) -> pd.DataFrame:
    rows = []

    def curve(name: str, cliff: float, band: float) -> None:
        for budget in budgets:
            share = budget / count
            delta = -0.4 / (1 + math.exp(-12 * (share - cliff))) + 0.4 / (1 + math.exp(12 * cliff))
            spread = band * (share > 0)
            place = ("all", name, budget, share, "accuracy")
            rows.append((*place, 0.912 + delta, delta, delta - spread, delta + spread))

    for number, method in enumerate(methods):
        curve(method, 0.85 - 0.1 * number, 0.02)
    for name in ("random", *(f"random-matched:{method}" for method in methods)):
        curve(name, 0.45, 0.04)
    return TABLES["curves"].frame(rows)


def _curve_tests(methods, draws, winners) -> pd.DataFrame:
    rows = []
    for x, y in itertools.combinations(methods, 2):
        gap = 0.03 * (methods.index(y) - methods.index(x))
        rows.append(("all", x, y, gap, gap - 0.04, gap + 0.04, 0.1, 0.2, *[math.nan] * 4))
    for number, method in enumerate(methods):
        area = 0.11 - 0.03 * number if number < winners else -0.002 * number
        p = 0.0005 if number < winners else 0.6
        for other in ("random", f"random-matched:{method}"):
            beaten = draws if number < winners else draws // 2
            ends, luck = (area - 0.02, area + 0.02), min(1, 2 * (1 + draws - beaten) / (1 + draws))
            held = min(1, 2 * len(methods) * luck)
            rows.append(
                ("all", method, other, area, *ends, p, min(1, 8 * p), beaten, draws, luck, held)
            )
    columns = ["kind", "method_x", "method_y", "area", "low", "high", "p", "p_adjusted"]
    columns += ["draws_beaten", "draws", "p_draws", "p_draws_adjusted"]
    return pd.DataFrame(rows, columns=columns)


def _paired(methods, budgets, count, first, second, difference) -> pd.DataFrame:
    rows = []
    for number, method in enumerate(methods):
        for budget in budgets[1:]:
            share = budget / count
            one, two = -0.3 * share**3, -0.08 * share * (1 + 0.1 * number)
            gap = one - two
            rows.append((method, budget, share, one, two, gap, gap - 0.01, gap + 0.01))
    columns = ["method", "budget", "share", first, second, difference, "low", "high"]
    return pd.DataFrame(rows, columns=columns)


def _correlations(data, heads) -> pd.DataFrame:
    rows = []
    for x, y in itertools.combinations(data, 2):
        row: dict[str, Any] = {"data_x": x, "data_y": y, "n_heads": heads, "note": ""}
        for name, value in (("pearson", 0.71), ("spearman", 0.42), ("kendall", 0.31)):
            row |= {name: value, f"{name}_low": value - 0.12, f"{name}_high": value + 0.1}
            row |= {f"{name}_p": 0.0002, f"{name}_p_within_layers": 0.012}
        row |= {"pearson_fisher_low": 0.6, "pearson_fisher_high": 0.8}
        row |= {"reliability_x": 0.86, "reliability_y": 0.78, "disattenuated": 0.867}
        rows.append(row)
    return TABLES["correlations"].frame(rows)

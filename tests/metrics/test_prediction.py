"""Metrics against literal formulas, scipy, and the definition of sufficiency."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from headtool.errors import HeadtoolError
from headtool.metrics import default_metric, get_metric, metrics_for
from headtool.metrics.prediction import TASKS
from headtool.metrics.translation import (
    BLEU,
    CHRF,
    TER,
    Rouge1,
    Rouge2,
    RougeL,
    WrittenF1,
    WrittenMatch,
)

ALL = [(task, name) for task in TASKS for name in metrics_for(task)]


def class_columns(prediction, gold, loss=None):
    n = len(gold)
    return {
        "prediction": np.array(prediction),
        "gold": np.array(gold),
        "loss": np.ones(n) if loss is None else np.array(loss),
        "tokens": np.ones(n),
    }


def regression_columns(prediction, gold):
    prediction, gold = np.array(prediction, float), np.array(gold, float)
    loss = (prediction - gold) ** 2
    return {"prediction": prediction, "gold": gold, "loss": loss, "tokens": np.ones(len(gold))}


def token_columns(loss, tokens, correct):
    return {"loss": np.array(loss), "tokens": np.array(tokens), "correct": np.array(correct)}


def random_columns(task, n, seed):
    rng = np.random.default_rng(seed)
    if task == "classification":
        classes = rng.integers(0, 2, n), rng.integers(0, 2, n)
        return {**class_columns(*classes, rng.exponential(size=n)), "kl": rng.exponential(size=n)}
    if task == "regression":
        gold = rng.normal(2.5, 1.2, n)
        return regression_columns(gold + rng.normal(size=n), gold)
    tokens = rng.integers(1, 20, n)
    columns = token_columns(rng.exponential(size=n) * tokens, tokens, rng.integers(0, tokens + 1))
    columns["kl"] = rng.exponential(size=n) * tokens
    if task == "causal-lm":
        columns |= {"bytes": 3 * tokens, "wrong_loss": rng.exponential(size=n) * tokens}
        columns |= {name: rng.integers(0, 2, n) for name in ("acc", "acc_norm", "acc_bytes")}
    if task == "token-classification":
        predicted, gold = 1 + rng.integers(4, size=(2, n))
        right = rng.integers(0, np.minimum(predicted, gold) + 1)
        counts = {"right": right, "predicted": predicted, "gold": gold}
        columns |= {f"entities_{name}": values for name, values in counts.items()}
    if task == "question-answering":
        columns |= {"answer_em": rng.integers(0, 2, n), "answer_f1": rng.random(n)}
    writes = task in ("seq2seq", "causal-lm")
    return {**columns, **translation_columns(rng, n)} if writes else columns


def translation_columns(rng, n):
    """Statistics of random sentences that share most of their words with the references."""
    sentences = [rng.choice([*"abcdefgh"], rng.integers(4, 12)) for _ in range(n)]
    changed = [np.where(rng.random(len(s)) < 0.3, "x", s) for s in sentences]
    references, hypotheses = ([" ".join(s) for s in side] for side in (sentences, changed))
    columns = {}
    rouge = (Rouge1(), Rouge2(), RougeL())
    for metric in (BLEU(), CHRF(), TER(), *rouge, WrittenMatch(), WrittenF1()):
        rows = metric.compare(hypotheses, references)
        columns |= dict(zip(metric.statistics, rows.T, strict=True))
    return columns


def take(columns, rows):
    return {name: values[rows] for name, values in columns.items()}


def metric_for(task, name):
    return get_metric(name, task=task, n_labels=2 if task == "classification" else None)


# --- literal formulas -------------------------------------------------------------------------


def literal_f1(prediction, gold, positive):
    pairs = list(zip(prediction, gold, strict=True))
    hits = sum(p == positive and g == positive for p, g in pairs)
    false_alarms = sum(p == positive and g != positive for p, g in pairs)
    misses = sum(p != positive and g == positive for p, g in pairs)
    if hits + false_alarms + misses == 0:
        return math.nan
    if hits == 0:
        return 0.0
    precision, recall = hits / (hits + false_alarms), hits / (hits + misses)
    return 2 * precision * recall / (precision + recall)


def literal_macro_f1(prediction, gold):
    return float(np.mean([literal_f1(prediction, gold, c) for c in sorted({*prediction, *gold})]))


def literal_mcc(prediction, gold, n_labels):
    """Gorodkin's R_K as the Pearson correlation of the stacked one-hot matrices."""
    x = np.eye(n_labels)[prediction] - np.eye(n_labels)[prediction].mean(axis=0)
    y = np.eye(n_labels)[gold] - np.eye(n_labels)[gold].mean(axis=0)
    denominator = math.sqrt((x * x).sum() * (y * y).sum())
    return (x * y).sum() / denominator if denominator > 1e-12 else 0.0


LABELS = st.integers(1, 4).flatmap(
    lambda k: st.tuples(
        st.just(k + 1),
        st.lists(st.tuples(st.integers(0, k), st.integers(0, k)), min_size=1, max_size=30),
    )
)


@given(LABELS)
def test_class_metrics_equal_literal_formulas(case):
    n_labels, pairs = case
    prediction, gold = [p for p, _ in pairs], [g for _, g in pairs]
    columns = class_columns(prediction, gold)

    def value(name):
        return get_metric(name, task="classification", n_labels=n_labels).compute(columns)

    assert value("accuracy") == pytest.approx(np.mean([p == g for p, g in pairs]))
    assert value("f1-macro") == pytest.approx(literal_macro_f1(prediction, gold))
    assert value("mcc") == pytest.approx(literal_mcc(prediction, gold, n_labels), abs=1e-12)
    if n_labels == 2:
        assert value("f1") == pytest.approx(literal_f1(prediction, gold, 1), nan_ok=True)


def test_binary_mcc_and_f1_by_hand():
    # tp 3, fp 1, fn 2, tn 4: F1 = 6/9; MCC = (3*4 - 1*2) / sqrt(4*5*5*6).
    columns = class_columns([1] * 4 + [0] * 6, [1, 1, 1, 0, 1, 1, 0, 0, 0, 0])
    assert metric_for("classification", "f1").compute(columns) == pytest.approx(6 / 9)
    assert metric_for("classification", "mcc").compute(columns) == pytest.approx(
        10 / math.sqrt(600)
    )


REALS = st.floats(-1e3, 1e3).map(lambda x: round(x, 3))


@given(st.lists(st.tuples(REALS, REALS), min_size=3, max_size=40))
def test_correlations_equal_scipy(pairs):
    prediction, gold = np.array(pairs).T
    columns = regression_columns(prediction, gold)
    pearson = get_metric("pearson", task="regression").compute(columns)
    spearman = get_metric("spearman", task="regression").compute(columns)
    if np.ptp(prediction) == 0 or np.ptp(gold) == 0:
        assert math.isnan(pearson)
        assert math.isnan(spearman)
    else:
        # Products rather than scipy's warnings about nearly constant input.
        x, y = prediction - prediction.mean(), gold - gold.mean()
        expected = (x * y).sum() / math.sqrt((x * x).sum() * (y * y).sum())
        assert pearson == pytest.approx(expected, abs=1e-9)
        assert spearman == pytest.approx(
            scipy.stats.spearmanr(prediction, gold).statistic, abs=1e-12
        )


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_pearson_equals_scipy_far_from_zero_and_with_ties(offset):
    rng = np.random.default_rng(3)
    gold = np.round(rng.uniform(0, 5, 200) * 5) / 5
    prediction = np.round(gold + rng.normal(size=200), 1) + offset
    columns = regression_columns(prediction, gold)
    assert get_metric("pearson", task="regression").compute(columns) == pytest.approx(
        scipy.stats.pearsonr(prediction, gold).statistic, rel=1e-10
    )
    assert get_metric("spearman", task="regression").compute(columns) == pytest.approx(
        scipy.stats.spearmanr(prediction, gold).statistic, rel=1e-12
    )


def test_token_metrics_weigh_by_tokens():
    columns = token_columns([2.0, 30.0], [1, 9], [1, 3])
    names = ("loss", "perplexity", "accuracy")
    assert set(names) <= set(metrics_for("causal-lm"))
    values = {name: metric_for("causal-lm", name).compute(columns) for name in names}
    assert values == pytest.approx(
        {"loss": 3.2, "perplexity": math.exp(3.2), "accuracy": 0.4}, rel=1e-12
    )


def test_regression_loss_is_the_mean_squared_error():
    columns = regression_columns([1.0, 2.0], [1.5, 4.0])
    assert metric_for("regression", "mse").compute(columns) == pytest.approx((0.25 + 4) / 2)
    assert metric_for("regression", "loss").compute(columns) == pytest.approx((0.25 + 4) / 2)


# --- sufficiency ------------------------------------------------------------------------------


@pytest.mark.parametrize(("task", "name"), ALL)
def test_sums_over_any_multiset_of_examples_give_its_value(task, name):
    columns = random_columns(task, 40, seed=1)
    metric = metric_for(task, name)
    statistics = metric.per_example(columns)
    assert statistics.shape[0] == 40
    assert statistics.dtype == np.float64
    rng = np.random.default_rng(2)
    draws = rng.integers(0, 40, (3, 5, 25))
    values = metric.from_sums(statistics[draws].sum(axis=2))
    assert values.shape == (3, 5)
    if name == "spearman":  # documented: resamples keep the ranks of the full sample
        full = {c: scipy.stats.rankdata(columns[c]) for c in ("prediction", "gold")}
        columns, metric = (
            regression_columns(full["prediction"], full["gold"]),
            metric_for(task, "pearson"),
        )
    expected = [[metric.compute(take(columns, rows)) for rows in block] for block in draws]
    np.testing.assert_allclose(values, expected, rtol=1e-10)


@pytest.mark.parametrize(("task", "name"), ALL)
def test_full_sums_equal_compute_and_inputs_stay_untouched(task, name):
    columns = random_columns(task, 30, seed=4)
    before = {key: values.copy() for key, values in columns.items()}
    metric = metric_for(task, name)
    full = float(metric.from_sums(metric.per_example(columns).sum(axis=0)))
    assert metric.compute(columns) == pytest.approx(full, rel=1e-12)
    for key, values in columns.items():
        np.testing.assert_array_equal(values, before[key])


def test_correlation_statistics_of_two_masks_may_be_mixed():
    """Approximate randomisation swaps two systems' statistics, example by example."""
    rng = np.random.default_rng(5)
    gold = rng.normal(3, 1, 50)
    first = regression_columns(gold + rng.normal(size=50), gold)
    second = regression_columns(0.2 * gold + 1 + rng.normal(size=50), gold)
    swap = rng.random(50) < 0.5
    metric = get_metric("pearson", task="regression")
    mixed = np.where(swap[:, None], metric.per_example(second), metric.per_example(first))
    expected = np.corrcoef(np.where(swap, second["prediction"], first["prediction"]), gold)[0, 1]
    assert float(metric.from_sums(mixed.sum(axis=0))) == pytest.approx(expected, rel=1e-10)


# --- standard errors --------------------------------------------------------------------------


def literal_jackknife(metric, columns, other=None):
    n = len(columns["loss"])
    values = []
    for left_out in range(n):
        rows = np.delete(np.arange(n), left_out)
        value = metric.compute(take(columns, rows))
        values.append(value - (0 if other is None else metric.compute(take(other, rows))))
    return math.sqrt((n - 1) / n * sum((v - np.mean(values)) ** 2 for v in values))


@pytest.mark.parametrize(("task", "name"), [pair for pair in ALL if pair[1] != "spearman"])
@pytest.mark.parametrize("paired", [False, True])
def test_jackknife_equals_deleting_one_by_one(task, name, paired):
    columns = random_columns(task, 25, seed=6)
    other = random_columns(task, 25, seed=7) if paired else None
    if other is not None and "gold" in other:
        other["gold"] = columns["gold"]
    metric = metric_for(task, name)
    assert metric.jackknife_stderr(columns, other) == pytest.approx(
        literal_jackknife(metric, columns, other), rel=1e-8
    )


@given(st.lists(st.floats(0, 50), min_size=2, max_size=40))
@settings(deadline=None)
def test_jackknife_of_a_mean_is_its_standard_error(losses):
    columns = class_columns([0] * len(losses), [0] * len(losses), losses)
    stderr = get_metric("loss", task="classification").jackknife_stderr(columns)
    assert stderr == pytest.approx(np.std(losses, ddof=1) / math.sqrt(len(losses)), abs=1e-9)


def test_spearman_jackknife_is_near_the_spread_over_samples():
    rng = np.random.default_rng(8)
    metric = get_metric("spearman", task="regression")
    values, stderrs = [], []
    for _ in range(300):
        gold = rng.normal(size=80)
        columns = regression_columns(gold + rng.normal(size=80), gold)
        values.append(metric.compute(columns))
        stderrs.append(metric.jackknife_stderr(columns))
    assert np.mean(stderrs) == pytest.approx(np.std(values), rel=0.2)


def test_paired_stderr_of_the_same_mask_is_zero():
    columns = random_columns("classification", 20, seed=9)
    for name in metrics_for("classification"):
        assert metric_for("classification", name).jackknife_stderr(columns, columns) == 0


# --- where a value is undefined ---------------------------------------------------------------


@pytest.mark.parametrize(("task", "name"), ALL)
def test_one_example_has_no_standard_error(task, name):
    columns = random_columns(task, 1, seed=10)
    assert math.isnan(metric_for(task, name).jackknife_stderr(columns))


@pytest.mark.parametrize(("task", "name"), ALL)
def test_no_examples_have_no_value(task, name):
    columns = random_columns(task, 0, seed=11)
    assert math.isnan(metric_for(task, name).compute(columns))


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e300])
@pytest.mark.parametrize("task", TASKS)
def test_values_that_are_not_finite_neither_crash_nor_warn(task, bad):
    columns = random_columns(task, 10, seed=12)
    columns["loss"][3] = bad
    if task == "regression":
        columns["prediction"][3] = bad
    for name in metrics_for(task):
        metric = metric_for(task, name)
        metric.compute(columns)
        metric.jackknife_stderr(columns)
        metric.jackknife_stderr(columns, columns)
    if math.isnan(bad):
        assert math.isnan(metric_for(task, "loss").compute(columns))
        if task == "regression":
            assert math.isnan(metric_for(task, "spearman").compute(columns))


def test_constant_predictions():
    constant = regression_columns([0.1] * 12, np.linspace(0.0, 1.0, 12))
    for name in ("pearson", "spearman"):
        metric = get_metric(name, task="regression")
        assert math.isnan(metric.compute(constant))
        assert math.isnan(float(metric.from_sums(metric.per_example(constant).sum(axis=0))))
    one_class = class_columns([0, 0, 0], [0, 1, 0])
    assert metric_for("classification", "mcc").compute(one_class) == 0.0
    assert metric_for("classification", "f1").compute(one_class) == 0.0
    nothing_positive = class_columns([0, 0], [0, 0])
    assert math.isnan(metric_for("classification", "f1").compute(nothing_positive))
    assert metric_for("classification", "f1-macro").compute(nothing_positive) == 1.0


def test_perplexity_that_overflows_is_infinite():
    columns = token_columns([1e6], [1], [0])
    assert metric_for("causal-lm", "perplexity").compute(columns) == math.inf


# --- names ------------------------------------------------------------------------------------


OF_TOKENS = ("loss", "perplexity", "accuracy", "kl")
OF_TEXT = ("bleu", "chrf", "ter", "rouge1", "rouge2", "rougeL")
OF_LANGUAGE_MODELS = ("bits-per-byte", "logit-difference", "acc", "acc_norm", "acc_bytes")


def test_metrics_of_each_task():
    assert {task: (default_metric(task), set(metrics_for(task))) for task in TASKS} == {
        "classification": ("accuracy", {"accuracy", "f1", "f1-macro", "mcc", "loss", "kl"}),
        "regression": ("pearson", {"pearson", "spearman", "mse", "loss"}),
        "causal-lm": ("loss", {*OF_TOKENS, *OF_LANGUAGE_MODELS, *OF_TEXT, "em", "f1"}),
        "masked-lm": ("loss", {*OF_TOKENS}),
        "seq2seq": ("loss", {*OF_TOKENS, *OF_TEXT}),
        "token-classification": ("f1", {"f1", "accuracy", "loss", "kl"}),
        "question-answering": ("f1", {"f1", "em", "loss", "kl"}),
    }


@pytest.mark.parametrize(("task", "name"), ALL)
def test_every_metric_says_what_it_is(task, name):
    metric = metric_for(task, name)
    assert metric.name == name
    assert task in metric.tasks
    assert metric.unit
    lower = ("loss", "perplexity", "mse", "ter", "kl", "bits-per-byte")
    assert metric.higher_is_better == (name not in lower)


def test_an_unknown_metric_suggests_the_nearest():
    with pytest.raises(HeadtoolError, match=r"'acuracy'; did you mean 'accuracy'\?.*f1-macro"):
        get_metric("acuracy", task="classification")


def test_a_metric_of_another_task_lists_the_task_s_own():
    with pytest.raises(HeadtoolError, match="'mcc' is not defined for causal-lm; choose one of"):
        get_metric("mcc", task="causal-lm")


def test_f1_of_three_classes_points_to_macro_f1():
    with pytest.raises(HeadtoolError, match="the model has 3; use f1-macro"):
        get_metric("f1", task="classification", n_labels=3)


def test_programming_errors_are_no_user_errors():
    with pytest.raises(ValueError, match="needs n_labels"):
        get_metric("mcc", task="classification")
    with pytest.raises(ValueError, match="unknown task 'vision'"):
        metrics_for("vision")

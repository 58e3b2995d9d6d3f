"""Options of methods that cannot be met: one line that names value and remedy, nothing written."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fisher.heads": "9"}, "fisher.heads must be between 1 and 8, got 9"),
        ({"fisher.heads": "0"}, "fisher.heads must be between 1 and 8, got 0"),
        ({"fisher.samples": "0"}, "fisher.samples must be at least 1, got 0"),
        ({"dsp.heads": "9"}, "dsp.heads must be between 1 and 8, got 9"),
        ({"dsp.heads": "-3"}, "dsp.heads must be between 1 and 8, got -3"),
        ({"dsp.heads": "half"}, "dsp.heads must be a whole number, got 'half'"),
        (
            {"dsp.variant": "straight-through", "dsp.temperature": "5"},
            "dsp.temperature has no effect on straight-through; leave it out",
        ),
        ({"gates.heads": "100"}, "gates.heads must be between 1 and 8, got 100"),
        (
            {"gates.sweep": "0.1,much"},
            "gates.sweep must be numbers from 0 on such as 0.01,0.02,0.05, got 'much'",
        ),
        (
            {"gates.sweep": "0.1", "gates.heads": "4"},
            "gates.sweep varies lambda, and gates.heads adapts it; give one",
        ),
        (
            {"shapley.permutations": "3"},
            "shapley.permutations must be even and at least 2, got 3",
        ),
        ({"shapley.tolerance": "2"}, "shapley.tolerance must be in [0, 1), got 2.0"),
        (
            {"lrp.rule": "epsilon"},
            "lrp.rule must be one of attnlrp, conservative, alpha-beta, got 'epsilon'",
        ),
        (
            {"gradient.batch_size": "8"},
            "gradient.batch_size has no effect on granularity token; leave it out",
        ),
        (
            {"fisher.granularity": "example", "fisher.batch_size": "8"},
            "fisher.batch_size has no effect on granularity example; leave it out",
        ),
        (
            {"dsp.weight_lr": "0.1"},
            "dsp.weight_lr has no effect where dsp.train=gates; leave it out",
        ),
        ({"random.draws": "5"}, "random has no options, got 'draws'"),
        ({"magnitude.norm": "l1"}, "magnitude has no options, got 'norm'"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_one_line_and_no_run(headtool, bert, reviews, tmp_path, settings, message: str) -> None:
    method = next(iter(settings)).partition(".")[0]
    words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    out = tmp_path / "run"
    done = headtool(
        "score", "--model", bert, "--data", reviews, "--method", method, *words, "--out", out
    )
    assert done.code == 2
    assert done.out == ""
    assert done.err.splitlines()[-1] == f"error: {message}"
    assert "Traceback" not in done.err
    assert not out.exists()

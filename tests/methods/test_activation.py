"""Sizes of the heads' outputs against literal loops."""

from __future__ import annotations

import numpy as np
import pytest

from headtool.data import TextData
from headtool.methods.activation import Activation
from headtool.models.huggingface.model import HuggingFaceModel

from .test_channels import outputs, weight_of


def test_minitron_equals_a_literal_loop(bert: HuggingFaceModel, pairs: TextData) -> None:
    wanted = []
    for examples in outputs(bert, pairs):
        squares = np.zeros(16)
        for tokens in examples:  # the released hook: mean over tokens, squared, summed
            squares += np.abs(tokens).mean(axis=0) ** 2
        wanted += np.linalg.norm(np.sqrt(squares).reshape(4, 4), axis=1).tolist()
    found = Activation().score(bert, bert.encode(pairs)).frame["score"]
    np.testing.assert_allclose(found * np.sqrt(17), wanted, rtol=1e-10)


def test_contribution_equals_a_literal_loop(bert: HuggingFaceModel, pairs: TextData) -> None:
    wanted = []
    for layer, examples in enumerate(outputs(bert, pairs)):
        by_head = weight_of(bert, layer).reshape(16, 4, 4)
        norms = [
            [np.linalg.norm(by_head[:, head] @ token[4 * head : 4 * head + 4]) for head in range(4)]
            for tokens in examples
            for token in tokens
        ]
        wanted += np.mean(norms, axis=0).tolist()
    found = Activation(variant="contribution").score(bert, bert.encode(pairs)).frame["score"]
    np.testing.assert_allclose(found, wanted, rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["minitron", "contribution"])
def test_standard_error_agrees_with_the_jackknife(
    variant: str, bert: HuggingFaceModel, pairs: TextData
) -> None:
    method, examples = Activation(variant=variant), bert.encode(pairs)
    left_out = [
        method.score(bert, examples.take(np.delete(np.arange(17), i))).frame["score"]
        for i in range(17)
    ]
    jackknife = np.sqrt(16 * np.var(left_out, axis=0))
    np.testing.assert_allclose(method.score(bert, examples).frame["stderr"], jackknife, rtol=0.15)

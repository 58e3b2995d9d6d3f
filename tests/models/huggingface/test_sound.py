"""Models that classify sound: from Python, on arrays in memory, without any padding."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pytest
import torch
import transformers as tf

import headtool
from headtool.errors import HeadtoolError

from ...support.sound import LISTENERS, listener, tones

_OUTPUTS = ("encoder.layers.{}.attention.out_proj", "layers.{}.attention.o_proj")
_WHISPERS = "encoder.layers.{}.self_attn.out_proj"


def projection(model: Any, layer: int) -> Any:
    """The output projection of a layer, by its name."""
    ends = tuple(name.format(layer) for name in (*_OUTPUTS, _WHISPERS))
    (found,) = (part for name, part in model.named_modules() if name.endswith(ends))
    return found


def loop(model: Any, rows: list[dict[str, Any]]) -> float:
    """The mean loss of single examples."""
    losses = []
    for row in rows:
        inputs = {name: torch.as_tensor(value)[None] for name, value in row.items()}
        with torch.no_grad():
            losses.append(float(model(**inputs).loss))
    return float(np.mean(losses))


def closed(model: Any, rows: list[dict[str, Any]]) -> Iterator[float]:
    """What closing each of the 2 x 4 heads, 4 wide, costs."""
    whole = loop(model, rows)
    for layer in range(2):
        for head in range(4):

            def close(module: Any, given: Any, head: int = head) -> Any:
                changed = given[0].clone()
                changed[..., 4 * head : 4 * head + 4] = 0
                return (changed,)

            hook = projection(model, layer).register_forward_pre_hook(close)
            yield loop(model, rows) - whole
            hook.remove()


@pytest.mark.parametrize("name", LISTENERS)
def test_effects_are_those_of_a_loop_over_single_examples(name: str) -> None:
    model, rows = listener(name), tones(name)
    found = headtool.ablate(headtool.wrap(model), rows, metric="loss").frame["delta"]
    wanted = list(closed(model, rows))
    assert np.abs(wanted).max() > 1e-4
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_a_mask_is_the_models_own() -> None:
    """Padding that the mask leaves out counts nowhere where the model's norms do not see it."""
    model = listener("Wav2Vec2 with layer norms")
    plain, rows = tones("Wav2Vec2", 6), []
    for row in plain:
        wave = np.zeros(240, np.float32)
        wave[: len(row["input_values"])] = row["input_values"]
        mask = (np.arange(240) < len(row["input_values"])).astype(int)
        rows.append({"input_values": wave, "attention_mask": mask, "labels": row["labels"]})
    wrapped = headtool.wrap(model)
    methods = ["gradient", "confidence", headtool.get_method("gates")(steps=2, batch_size=4)]
    found, wanted = (headtool.score(wrapped, data, methods=methods[:2]) for data in (rows, plain))
    np.testing.assert_allclose(found.frame["score"], wanted.frame["score"], rtol=1e-4)
    assert len(headtool.score(wrapped, rows, methods=methods[2:]).frame) == 8  # one batch of all
    model = listener("Wav2Vec2")  # whose norm sees the padding: as in a loop, no more
    found = headtool.ablate(headtool.wrap(model), rows, metric="loss").frame["delta"]
    np.testing.assert_allclose(found, list(closed(model, rows)), atol=1e-6)


def test_a_mask_of_ones_changes_nothing() -> None:
    plain = tones("AST", 6)
    rows = [{**row, "attention_mask": [1] * 32} for row in plain]
    model = headtool.wrap(listener("AST"))
    found, wanted = (headtool.score(model, data, methods=["gradient"]) for data in (rows, plain))
    assert found.frame["score"].tolist() == wanted.frame["score"].tolist()


def test_recordings_go_through_the_feature_extractor(tmp_path: Path) -> None:
    model = listener("Wav2Vec2")
    extractor = tf.Wav2Vec2FeatureExtractor(sampling_rate=100)
    sounds = [(row["input_values"], row["labels"]) for row in tones("Wav2Vec2", 6)]
    made = [extractor(x, sampling_rate=100).input_values[0] for x, _ in sounds]
    wanted = loop(
        model, [{"input_values": x, "labels": y} for x, (_, y) in zip(made, sounds, strict=True)]
    )
    wrapped = headtool.wrap(model, extractor)
    rows = [{"audio": {"array": x, "sampling_rate": 100}, "label": y} for x, y in sounds]
    lists = [{"audio": x.tolist(), "label": y} for x, y in sounds]
    for data in (rows, lists, pd.DataFrame(rows), datasets.Dataset.from_list(lists)):
        examples = wrapped.encode(headtool.load_data(data))
        assert headtool.evaluate(wrapped, examples, []).whole["loss"].mean() == pytest.approx(
            wanted, abs=1e-6
        )
    wrong = [{"audio": {"array": x, "sampling_rate": 8}, "label": y} for x, y in sounds]
    with pytest.raises(
        HeadtoolError, match=r"example 1 has 8 samples a second, and .* reads 100; resample"
    ):
        wrapped.encode(headtool.load_data(wrong))
    with pytest.raises(HeadtoolError, match="has no feature extractor; give wrap one"):
        headtool.wrap(model).encode(headtool.load_data(rows))
    model.save_pretrained(tmp_path)
    extractor.save_pretrained(tmp_path)
    assert headtool.load_model(str(tmp_path)).encode(headtool.load_data(rows)).classes == {
        "0": 3,
        "1": 3,
    }


@pytest.mark.parametrize("name", ["HuBERT", "AST"])
def test_compare_prune_and_load(name: str, tmp_path: Path) -> None:
    model, rows = listener(name), tones(name)
    wrapped = headtool.wrap(model)
    found = headtool.compare(wrapped, rows, methods=["gradient", "lrp"], draws=2, resamples=20)
    assert np.isfinite(found.scores["score"]).all()
    out = tmp_path / "pruned"
    scores = headtool.score(wrapped, rows, methods=["gradient"])
    pruning = headtool.prune(wrapped, scores=scores, keep_heads=5, data=rows, out=out)
    small = headtool.load_model(str(out))
    assert small.sites.n_heads == 5
    assert "pipeline_tag: audio-classification\n" in (out / "README.md").read_text()
    examples = small.encode(headtool.load_data(rows))
    assert headtool.evaluate(small, examples, []).whole["loss"].mean() == pytest.approx(
        pruning.quality["loss"]["pruned"]
    )


def test_images_in_memory_are_arrays_too() -> None:
    size = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = tf.ViTConfig(**size, intermediate_size=20, image_size=16, patch_size=4)
    model: Any = tf.ViTForImageClassification(config).eval()
    drawn = np.random.default_rng(0).standard_normal((6, 3, 16, 16)).astype(np.float32)
    rows = [{"pixel_values": image, "labels": i % 2} for i, image in enumerate(drawn)]
    wrapped = headtool.wrap(model)
    whole = headtool.evaluate(wrapped, wrapped.encode(headtool.load_data(rows)), []).whole["loss"]
    assert whole.mean() == pytest.approx(loop(model, rows), abs=1e-6)


def refused(rows: Any, message: str, *, name: str = "Wav2Vec2", **options: Any) -> None:
    model = headtool.wrap(LISTENERS[name]())
    with pytest.raises(HeadtoolError, match=message) as raised:
        headtool.score(model, rows, **{"methods": ["gradient"], **options})
    assert "\n" not in str(raised.value)


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    rows = tones("Wav2Vec2", 6)
    gates = headtool.get_method("gates")(steps=2)
    refused(rows, "several shapes, such as .*make them equally long", methods=[gates])
    refused([{"text": "a", "label": 1}], "classification, but .* reads sound and needs audio")
    refused(
        rows, "holds input_values, but .* or input_features and labels, in memory", name="Whisper"
    )
    masked = [{**row, "attention_mask": [0, 1] * 8} for row in tones("AST", 2)]
    refused(masked, "must be ones and then zeros", name="AST")
    masked = [{**row, "attention_mask": [1] * 8 + [0] * 8} for row in tones("AST", 2)]
    refused(masked, "reads all of them; leave the mask out", name="AST")
    for value in ("a.wav", [], [[1.0], [1.0, 2.0]], [float("nan")]):
        refused([{"input_values": value, "labels": 0}], "row 1: column 'input_values' must hold an")
    refused([{"audio": [1, 2], "labels": 0}], "column 'audio' must hold decoded sound: floats")
    refused([{"input_values": [1.0] * 99}], "no column 'label' or 'labels'")
    refused([{"input_values": [0.5], "labels": 0}], "example 1: .*[Kk]ernel size")
    recorded = {"audio": [{"bytes": b"RIFF", "path": None}], "label": [0]}
    encoded = datasets.Dataset.from_dict(recorded).cast_column("audio", datasets.Audio())
    refused(encoded, r"cannot decode column 'audio' \(.*torchcodec.*\); install that, or give")
    file = tmp_path / "sound.jsonl"
    file.write_text('{"input_values": [0.5], "labels": 0}\n')
    refused(str(file), "is a file, and arrays of numbers .* are read from memory")
    with pytest.raises(HeadtoolError, match="given a str; give its image processor or feature"):
        headtool.wrap(LISTENERS["AST"](), "tokenizer")
    for transcribing in (
        tf.Wav2Vec2ForCTC(LISTENERS["Wav2Vec2"]().config),
        tf.WhisperForConditionalGeneration(LISTENERS["Whisper"]().config),
    ):
        with pytest.raises(HeadtoolError, match=r"transcribes sound, .* takes those that classify"):
            headtool.wrap(transcribing)

"""Models that read images: what they read, which are refused, and every command on them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import headtool
from headtool.data import TextData
from headtool.errors import HeadtoolError
from headtool.heads import HeadMask

from ...support.tasks import SIGHTED, pictures, save, save_images, viewer


@pytest.mark.parametrize("name", sorted(set(SIGHTED) - {"Swin"}))
def test_models_see_what_their_processor_makes_of_images(name: str, tmp_path: Path) -> None:
    model = viewer(name)
    data = headtool.load_data(str(save_images(tmp_path / "pets")))
    examples = model.encode(data, batch_tokens=40)
    whole = headtool.evaluate(model, examples, []).whole
    from PIL import Image

    for number, path in enumerate(data.columns["image"]):
        pixels = model.tokenizer(Image.open(path).convert("RGB"), return_tensors="pt").pixel_values
        with torch.no_grad():
            logits = model.module(pixel_values=pixels.double()).logits
        wanted = torch.nn.functional.cross_entropy(logits, torch.tensor([number // 3]))
        assert whole["loss"][number] == pytest.approx(float(wanted))
    assert examples.classes == {"cat": 3, "dog": 3}


def test_closing_a_head_is_zeroing_its_columns_of_the_projection() -> None:
    model = viewer()
    examples = model.encode(pictures())
    head = model.sites.heads[5]
    masked = headtool.evaluate(model, examples, [HeadMask.without(model.sites, [head])])
    site = model.handles[head.layer]
    width = site.site.head_dim
    with torch.no_grad():
        site.module.weight[:, head.index * width : (head.index + 1) * width] = 0
    again = headtool.evaluate(model, examples, []).whole
    np.testing.assert_allclose(masked.masked["loss"][0], again["loss"])


def test_windows_are_refused_in_a_line() -> None:
    with pytest.raises(HeadtoolError, match="SwinForImageClassification attends within windows"):
        viewer("Swin", size=32)


def test_text_for_images_and_images_for_text() -> None:
    texts = TextData("t", "classification", {"text_a": ("a",), "label": ("cat",)})
    with pytest.raises(HeadtoolError, match="reads images and needs a folder"):
        viewer().encode(texts)
    with pytest.raises(HeadtoolError, match="holds data of the kind images, but"):
        headtool.load_model("builtin:nli").encode(pictures())
    for refused in (lambda m: m.pieces(), lambda m: m.export(batch=1, length=5)):
        with pytest.raises(HeadtoolError, match="reads images; give one of text"):
            refused(viewer())


def test_a_damaged_image_is_named(tmp_path: Path) -> None:
    folder = save_images(tmp_path / "pets")
    (folder / "dog" / "3.png").write_bytes(b"x")
    with pytest.raises(
        HeadtoolError, match=r"pets, example 5 \('3.png'\): cannot decode the image"
    ):
        viewer().encode(headtool.load_data(str(folder)))


@pytest.mark.slow
def test_commands(tmp_path: Path) -> None:
    folder = str(save(viewer(), tmp_path / "model"))
    data = str(save_images(tmp_path / "pets", 16))
    found = headtool.compare(folder, data, methods=["gradient", "confidence"])
    assert np.isfinite(found.scores["score"]).all()
    scores = headtool.score(folder, data, methods=["gradient"])
    out = tmp_path / "pruned"
    pruning = headtool.prune(folder, scores=scores, keep_heads=5, data=data, out=out)
    assert set(pruning.quality) == {"accuracy", "loss"}
    small = headtool.load_model(str(out))
    assert (small.task, small.sites.n_heads, small.labels) == ("classification", 5, ("cat", "dog"))

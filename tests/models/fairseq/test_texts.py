"""Language models, masked language models and classifiers of fairseq."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headtool
from headtool.data import TextData, load_data
from headtool.errors import HeadtoolError
from headtool.heads import Head, HeadMask
from headtool.models.base import ModelAdapter
from headtool.models.examples import Batch

from ...support.fairseq_texts import LETTERS, write_gpt2

Save = Callable[..., Path]

KINDS: dict[str, dict[str, Any]] = {
    "lm": {"arch": "transformer_lm"},
    "lm-gpt": {"arch": "transformer_lm_gpt", "add_bos_token": True},
    "lm-gpt3": {"arch": "transformer_lm_gpt3_small", "decoder_ffn_embed_dim": 20},
    "mlm": {"arch": "roberta"},
    "mlm-prenorm": {"arch": "roberta_prenorm", "untie_weights_roberta": True},
    "classifier": {"arch": "roberta_base", "classes": 3, "labels": "bad fine good"},
    "regressor": {"arch": "roberta", "classes": 1, "regression_target": True},
}
TASKS = {
    "lm": "causal-lm",
    "mlm": "masked-lm",
    "classifier": "classification",
    "regressor": "regression",
}


def load(path: Path, **options: Any) -> ModelAdapter:
    return headtool.load_model(f"fairseq:{path}", device="cpu", **options)


def texts() -> TextData:
    rng = np.random.default_rng(0)
    lines = [" ".join(rng.choice([*LETTERS], size=n)) for n in (5, 60, 12, 3, 30, 9)]
    return TextData("some.txt", "text", {"text": tuple(lines)})


def labelled(task: str = "classification", *, pairs: bool = False) -> TextData:
    rng = np.random.default_rng(1)
    names = ("text_a", "text_b") if pairs else ("text_a",)
    columns = {
        name: tuple(" ".join(rng.choice([*LETTERS], size=rng.integers(2, 9))) for _ in range(14))
        for name in names
    }
    wanted = ("bad", "fine", "good") if task == "classification" else ("0.5", "-1", "2")
    labels = tuple(str(rng.choice(wanted)) for _ in range(14))
    return TextData("some.tsv", "classification", {**columns, "label": labels})


def data_for(model: ModelAdapter) -> TextData:
    return texts() if model.task in ("causal-lm", "masked-lm") else labelled(model.task)


def whole(model: ModelAdapter, **options: Any) -> Batch:
    examples = model.encode(data_for(model), **options)
    return model.collate(examples, np.arange(len(examples)))


@pytest.fixture(params=KINDS)
def model(request: pytest.FixtureRequest, save_fairseq_text: Save) -> ModelAdapter:
    return load(save_fairseq_text(**KINDS[request.param]))


# -- loading ------------------------------------------------------------------------------------


def test_heads_are_found_and_gates_act_on_them(model: ModelAdapter) -> None:
    kind = "dec-self" if model.task == "causal-lm" else "enc-self"
    assert model.sites.summary == f"{kind} 2 x 4"
    batch = whole(model)
    plain = model.forward(batch)
    assert torch.isfinite(plain.losses).all()
    for handle in model.handles:
        weight: Any = handle.module.weight
        kept = weight.detach().clone()
        gates = torch.ones(4)
        gates[1] = 0
        with torch.no_grad():
            from headtool.attention.gating import Gating

            with model.intercept(Gating({handle.site: gates}), batch):
                masked = model.forward(batch).losses
            weight[:, 4:8] = 0
            zeroed = model.forward(batch).losses
            weight.copy_(kept)
        torch.testing.assert_close(masked, zeroed, rtol=1e-5, atol=1e-5)
        assert (masked - plain.losses).abs().max() > 1e-4


def test_padding_and_batches_change_nothing(model: ModelAdapter) -> None:
    examples = model.encode(data_for(model))
    together = model.forward(whole(model)).losses
    for row in range(len(examples)):
        alone = model.forward(model.collate(examples, np.array([row]))).losses
        torch.testing.assert_close(alone[0], together[row], rtol=1e-4, atol=1e-4)


def test_tasks_and_labels(save_fairseq_text: Save, tmp_path: Path) -> None:
    for name, task in TASKS.items():
        folder = tmp_path / name
        folder.mkdir()
        found = load(save_fairseq_text(folder=folder, **KINDS[name]))
        assert (found.library, found.task) == ("fairseq", task)
        assert found.labels == (("bad", "fine", "good") if name == "classifier" else ())
    bare = tmp_path / "bare"
    bare.mkdir()
    assert load(save_fairseq_text("roberta", folder=bare, classes=2)).labels == ("0", "1")


# -- what is computed ---------------------------------------------------------------------------


def test_a_language_model_predicts_every_symbol_and_the_end(save_fairseq_text: Save) -> None:
    model = load(save_fairseq_text("transformer_lm"))
    assert model.max_length == 40
    rows = model.encode(texts()).rows
    dictionary: Any = model.dictionary  # type: ignore[attr-defined]
    end = dictionary.eos()
    lines = [line.split() for line in texts().columns["text"]]
    assert [len(row["tokens"]) for row in rows] == [6, 40, 21, 13, 4, 31, 10]
    assert rows[0]["tokens"] == [end, *map(dictionary.index, lines[0])]
    assert rows[0]["targets"] == [*map(dictionary.index, lines[0]), end]
    assert rows[2]["tokens"][0] == rows[1]["targets"][-1]  # a block goes on where one ended
    tokens = torch.tensor([rows[0]["tokens"]])
    logits, _ = model.module(tokens)
    chances = logits[0].log_softmax(dim=-1)
    by_hand = -sum(chances[i, target] for i, target in enumerate(rows[0]["targets"]))
    forward = model.forward(model.collate(model.encode(texts()), np.array([0])))
    torch.testing.assert_close(forward.losses[0], by_hand)
    assert int(forward.columns["tokens"][0]) == 6


def test_a_masked_model_guesses_some_symbols(save_fairseq_text: Save) -> None:
    model = load(save_fairseq_text("roberta"))
    dictionary: Any = model.dictionary  # type: ignore[attr-defined]
    mask = dictionary.index("<mask>")
    assert mask == len(dictionary) - 1
    first = model.encode(texts(), seed=3)
    assert first.rows == model.encode(texts(), seed=3, batch_tokens=1).rows
    assert first.rows != model.encode(texts(), seed=4).rows
    for row in first.rows:
        tokens, targets = row["tokens"], row["targets"]
        assert (tokens[0], tokens[-1]) == (dictionary.bos(), dictionary.eos())
        masked = [i for i, token in enumerate(tokens) if token == mask]
        assert masked == [i for i, target in enumerate(targets) if target != -100]
        assert len(masked) == max(1, round(0.15 * (len(tokens) - 2)))


def test_classifiers_read_sentences_as_fairseq_frames_them(save_fairseq_text: Save) -> None:
    model = load(save_fairseq_text(**KINDS["classifier"]))
    pairs = labelled(pairs=True)
    rows = model.encode(pairs).rows
    dictionary: Any = model.dictionary  # type: ignore[attr-defined]
    a, b = (pairs.columns[name][0].split() for name in ("text_a", "text_b"))
    number = dictionary.index
    start, end = dictionary.bos(), dictionary.eos()
    assert rows[0]["tokens"] == [start, *map(number, a), end, end, *map(number, b), end]
    assert rows[0]["target"] == ("bad", "fine", "good").index(pairs.columns["label"][0])
    logits, _ = model.module(
        torch.tensor([rows[0]["tokens"]]),
        features_only=True,
        classification_head_name="sentence_classification_head",
    )
    forward = model.forward(model.collate(model.encode(pairs), np.array([0])))
    by_hand = -logits[0].log_softmax(dim=-1)[rows[0]["target"]]
    torch.testing.assert_close(forward.losses[0], by_hand)
    assert forward.columns["prediction"][0] == logits[0].argmax()


# -- all that is done with a model --------------------------------------------------------------


@pytest.mark.parametrize("name", ["lm", "mlm", "classifier"])
def test_removal_is_smaller_and_comes_back(
    name: str, save_fairseq_text: Save, tmp_path: Path
) -> None:
    model = load(save_fairseq_text(**KINDS[name]))
    heads = [Head(site.kind, site.layer, i) for site in model.sites for i in (0, 2)]
    heads += [Head(model.sites[1].kind, 1, i) for i in (1, 3)]  # a layer without heads
    pruning = headtool.prune(model, mask=HeadMask.without(model.sites, heads), out=tmp_path / "out")
    row = pruning.frame.iloc[0]
    assert row["parameters_after"] < row["parameters"]
    assert row["difference"] < 1e-5
    before = sum(p.numel() for p in model.module.parameters())
    assert sum(p.numel() for p in pruning.model.module.parameters()) < before
    again = headtool.load_model(str(tmp_path / "out"), device="cpu")
    assert (again.task, again.labels) == (model.task, model.labels)
    batch = whole(model)
    torch.testing.assert_close(again.forward(batch).losses, pruning.model.forward(batch).losses)
    assert sum(p.numel() for p in again.module.parameters()) < before
    twice = headtool.prune(again, mask=HeadMask.without(again.sites, [again.sites.heads[0]]))
    assert twice.model.sites.n_heads == 1
    fresh = again.fresh(1)
    assert fresh.sites == again.sites
    assert fresh.fingerprint != again.fingerprint
    baked = headtool.prune(
        model, mask=HeadMask.without(model.sites, heads), bake=True, out=tmp_path / "baked"
    )
    full = headtool.load_model(f"fairseq:{tmp_path / 'baked'}", device="cpu")
    assert (full.task, full.labels) == (model.task, model.labels)
    torch.testing.assert_close(full.forward(batch).losses, baked.model.forward(batch).losses)


@pytest.mark.parametrize("name", ["lm", "mlm", "classifier"])
def test_fairseq_loads_what_is_baked(name: str, save_fairseq_text: Save, tmp_path: Path) -> None:
    from headtool.quiet import silence

    model = load(save_fairseq_text(**KINDS[name]))
    mask = HeadMask.without(model.sites, [model.sites.heads[1]])
    headtool.prune(model, mask=mask, bake=True, out=tmp_path / "baked")
    with silence(), torch.serialization.safe_globals([__import__("argparse").Namespace]):
        from fairseq.checkpoint_utils import load_model_ensemble

        task = _Task(model)
        (theirs,), _ = load_model_ensemble([str(tmp_path / "baked" / "checkpoint.pt")], task=task)
    theirs.eval()
    batch = whole(model)
    for mine, other in zip(
        (p for _, p in sorted(theirs.state_dict().items())),
        (
            p
            for _, p in sorted(
                headtool.load_model(f"fairseq:{tmp_path / 'baked'}").module.state_dict().items()
            )
        ),
        strict=True,
    ):
        assert torch.equal(mine, other)
    assert len(batch) > 1


class _Task:
    """As much of a fairseq task as building a model takes."""

    def __init__(self, model: ModelAdapter) -> None:
        self.model: Any = model
        self.source_dictionary = self.target_dictionary = self.model.dictionary

    def build_model(self, args: Any, from_checkpoint: bool = False) -> Any:
        from fairseq import models

        built = models.build_model(args, self, from_checkpoint)
        if self.model.design.head:
            design = self.model.design
            built.register_classification_head(design.head, design.classes, design.inner)
        return built


def test_the_chain_of_commands(save_fairseq_text: Save, tmp_path: Path) -> None:
    path = save_fairseq_text("transformer_lm_gpt")
    text = tmp_path / "some.txt"
    text.write_text("\n\n".join(5 * texts().columns["text"]))
    ablation = headtool.ablate(f"fairseq:{path}", str(text))
    assert headtool.test(ablation).frame.shape[0] == 8
    found = headtool.compare(
        f"fairseq:{path}", str(text), methods=["gradient", "magnitude"], steps="50%", draws=1
    )
    assert set(found.curves["method"]) >= {"gradient", "magnitude"}
    assert math.isfinite(found.curves["value"].max())


# -- text ---------------------------------------------------------------------------------------


def test_gpt2_pieces_beside_the_checkpoint(save_fairseq_text: Save, tmp_path: Path) -> None:
    symbols = write_gpt2(tmp_path, [("t", "h"), ("th", "e"), ("\u0120", "the")])
    path = save_fairseq_text("roberta", symbols=symbols)
    found: Any = load(path)
    assert found.bpe.name == "gpt2"
    data = TextData("x.txt", "text", {"text": ("the cat \u00e9 the",)})
    dictionary = found.dictionary
    pieces = [
        int(p) for p in dictionary.string(found.pieces().cut("the cat the").ids[1:-1]).split()
    ]
    assert pieces[0] == int(symbols[257])
    assert pieces[-1] == int(symbols[258])
    assert found.bpe.decode(found.bpe.encode("the cat \u00e9 the")) == "the cat \u00e9 the"
    assert dictionary.unk() not in found.encode(data).rows[0]["tokens"]
    cut = found.pieces().cut("the cat the")
    assert cut.spans[1] == (0, 3)
    assert cut.spans[-2] == (8, 11)
    mask = HeadMask.without(found.sites, [found.sites.heads[0]])
    headtool.prune(found, mask=mask, out=tmp_path / "p")
    again: Any = headtool.load_model(str(tmp_path / "p"))
    assert again.bpe.encode("the cat") == found.bpe.encode("the cat")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for part in ("encoder.json", "vocab.bpe"):
        (tmp_path / part).rename(elsewhere / part)
    assert load(path).bpe.name == "none"  # type: ignore[attr-defined]
    assert load(path, bpe=f"gpt2:{elsewhere}").bpe.name == "gpt2"  # type: ignore[attr-defined]
    with pytest.raises(HeadtoolError, match=r"no encoder\.json in .*`bpe=gpt2:DIR`"):
        load(path, bpe="gpt2")


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ("encoder.json", "[]"),
        ("encoder.json", "{"),
        ("encoder.json", '{"a": 1}'),
        ("encoder.json", "[" * 100_000),
        ("vocab.bpe", "#version\nx y z\n"),
        ("vocab.bpe", "#version\nq q\n"),
    ],
)
def test_damaged_pieces_are_one_line(
    part: str, text: str, save_fairseq_text: Save, tmp_path: Path
) -> None:
    path = save_fairseq_text("roberta", symbols=write_gpt2(tmp_path, [("t", "h")]))
    (tmp_path / part).write_text(text)
    with pytest.raises(HeadtoolError, match="is no gpt2 file, or damaged") as error:
        load(path)
    assert "\n" not in str(error.value)


def test_binarised_text(save_fairseq_text: Save, tmp_path: Path) -> None:
    from headtool.quiet import silence

    path = save_fairseq_text("transformer_lm")
    with silence():
        from fairseq.data import Dictionary, indexed_dataset
    dictionary = Dictionary.load(str(tmp_path / "dict.txt"))
    lines = list(texts().columns["text"])
    builder = indexed_dataset.make_builder(str(tmp_path / "test.bin"), "mmap", vocab_size=16)
    for line in lines:
        builder.add_item(dictionary.encode_line(line, add_if_not_exist=False).long())
    builder.finalize(str(tmp_path / "test.idx"))
    data = load_data(f"fairseq-bin:{tmp_path}/test")
    assert (data.kind, data.pretokenized) == ("text", True)
    assert data.columns["text"] == tuple(lines)
    model = load(path)
    assert model.encode(data).rows == model.encode(texts()).rows
    with pytest.raises(HeadtoolError, match="has no binarised"):
        load_data(f"fairseq-bin:{tmp_path}/valid")
    nli = headtool.load_model("builtin:nli")
    with pytest.raises(HeadtoolError, match="holds data of the kind text"):
        nli.encode(data)


# -- what is refused ----------------------------------------------------------------------------


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(HeadtoolError) as error:
        load(path, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


def record(path: Path, **options: Any) -> Path:
    checkpoint = torch.load(path, weights_only=False)
    vars(checkpoint["args"]).update(options)
    torch.save(checkpoint, path)
    return path


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"adaptive_input": True}, "--adaptive-input, which headtool does not support"),
        ({"character_embeddings": True, "character_filters": "1/0"}, "--character-embeddings"),
        ({"adaptive_softmax_cutoff": "__import__('os')"}, "--adaptive-softmax-cutoff"),
        ({"arch": "transformer_lm_wiki103"}, "--adaptive-input"),
        ({"output_dictionary_size": 4}, "records output_dictionary_size = 4"),
        ({"decoder_layers": -1}, "records decoder_layers = '-1'"),
        ({"decoder_layers": 3}, "do not fit the architecture"),
        ({"arch": "lstm_lm"}, "language models .* and RoBERTa"),
    ],
)
def test_other_language_models_are_refused(
    options: dict[str, Any], complaint: str, save_fairseq_text: Save
) -> None:
    import re

    path = record(save_fairseq_text("transformer_lm"), **options)
    assert re.search(complaint, refusal(path))


def test_files_that_do_not_belong(save_fairseq_text: Save, tmp_path: Path) -> None:
    path = save_fairseq_text(**KINDS["classifier"])
    (tmp_path / "label" / "dict.txt").write_text("bad 1\n")
    assert "names 1 classes, and the model has 3" in refusal(path)
    (tmp_path / "dict.txt").write_text("a 1\n")
    assert "embeddings but its dictionary has 6 symbols" in refusal(path)
    (tmp_path / "dict.txt").unlink()
    assert f"no dict.txt in '{tmp_path}'" in refusal(path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert f"no dict.txt in '{elsewhere}'" in refusal(path, fairseq_data=str(elsewhere))


def test_data_of_another_kind(save_fairseq_text: Save) -> None:
    model = load(save_fairseq_text("transformer_lm"))
    with pytest.raises(HeadtoolError, match=r"is a causal-lm model and needs a \.txt file"):
        model.encode(labelled())
    strange = TextData("x.txt", "text", {"text": ("? ! ? !",)})
    with pytest.raises(HeadtoolError, match=r"100% of the symbols of x\.txt are unknown"):
        model.encode(strange)


def test_a_record_that_was_edited_builds_nothing(save_fairseq_text: Save, tmp_path: Path) -> None:
    import json

    model = load(save_fairseq_text("transformer_lm"))
    mask = HeadMask.without(model.sites, [model.sites.heads[0]])
    headtool.prune(model, mask=mask, out=tmp_path / "out")
    place = tmp_path / "out" / "headtool-pruned.json"
    document = json.loads(place.read_text())
    evil = {"character_embeddings": True, "character_filters": "open('/nonexistent')"}
    document["design"]["architecture"] |= evil
    place.write_text(json.dumps(document))
    assert headtool.load_model(str(tmp_path / "out")).task == "causal-lm"  # what is unknown is left
    document["design"]["family"] = "lstm"
    place.write_text(json.dumps(document))
    with pytest.raises(HeadtoolError, match="describes no language model"):
        headtool.load_model(str(tmp_path / "out"))

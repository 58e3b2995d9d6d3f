"""Metrics of what models translate: the numbers of fairseq's own tools and sacreBLEU."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu
import torch

from headtool.builtin import mt
from headtool.data import TextData, load_data
from headtool.engine.measurement import described, measure, reference_texts
from headtool.engine.replacement import Mean, Resample
from headtool.errors import HeadtoolError
from headtool.heads import Head, HeadMask
from headtool.metrics import get_metric
from headtool.metrics.base import Metric
from headtool.models import load_model
from headtool.models.fairseq.model import FairseqModel
from headtool.quiet import silence
from headtool.searching import Search

# fairseq's attention, run as fairseq runs it, gives masks of two types to one function of torch.
pytestmark = pytest.mark.filterwarnings("ignore:Support for mismatched key_padding_mask")

SCORERS = {"bleu": sacrebleu.BLEU, "chrf": sacrebleu.CHRF, "ter": sacrebleu.TER}


def seq2seq(name: str) -> Metric:
    return get_metric(name, task="seq2seq")


@pytest.fixture(scope="module")
def builtin() -> FairseqModel:
    with silence():
        pytest.importorskip("fairseq")
    model = load_model("builtin:mt", device="cpu")
    assert isinstance(model, FairseqModel)
    return model


def fairseq_translations(
    checkpoint: Path, sources: list[str], *, beam: int, bpe: Any = None
) -> list[str]:
    """What fairseq-interactive prints, by its own loader, task, dataset and generator."""
    with silence():
        from fairseq import checkpoint_utils
        from fairseq.dataclass.configs import GenerationConfig

        with torch.serialization.safe_globals([Namespace]):
            (module,), _, task = checkpoint_utils.load_model_ensemble_and_task(
                [str(checkpoint)], arg_overrides={"data": str(checkpoint.parent)}
            )
        module.eval()
        search = task.build_generator([module], GenerationConfig(beam=beam))
        ids = [
            task.source_dictionary.encode_line(
                bpe.encode(line) if bpe else line, add_if_not_exist=False
            ).long()
            for line in sources
        ]
        dataset = task.build_dataset_for_inference(ids, [len(row) for row in ids])
        texts = {}
        for batch in torch.arange(len(ids)).split(16):
            sample = dataset.collater([dataset[i] for i in batch.tolist()])
            found = task.inference_step(search, [module], sample)
            for number, best in zip(sample["id"].tolist(), found, strict=True):
                text = task.target_dictionary.string(best[0]["tokens"])
                texts[number] = bpe.decode(text) if bpe else text
    return [texts[number] for number in range(len(ids))]


# -- whole models against the libraries' own tools ------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("beam", [1, 5])
def test_the_built_in_model_scores_as_in_fairseq_and_sacrebleu(
    builtin: FairseqModel, beam: int
) -> None:
    data = load_data("builtin:mt/noisy", limit=40)
    expected = fairseq_translations(
        mt.model_folder() / "checkpoint.pt", list(data.columns["source"]), beam=beam
    )
    for name, scorer in SCORERS.items():
        metric = seq2seq(name)
        found = measure(builtin, builtin.encode(data), [], metric, search=Search(beam=beam))
        assert found.hypotheses is not None
        assert list(found.hypotheses.whole) == expected
        score = scorer().corpus_score(expected, [list(data.columns["target"])]).score
        assert metric.compute(found.outcomes.whole) == pytest.approx(score, rel=1e-12)
        assert 0 < score < 100


@pytest.mark.slow
def test_a_trained_model_scores_as_in_fairseq_and_sacrebleu(shared: Path) -> None:
    """Raw text through sentencepiece, and fairseq's binary data, beam 5."""
    with silence():
        pytest.importorskip("fairseq")
    folder, texts = shared / "models" / "fairseq-multi30k-de-en", shared / "data" / "multi30k"
    model = load_model(f"fairseq:{folder}/checkpoint24.pt", device="cpu")
    assert isinstance(model, FairseqModel)
    raw = load_data(f"{texts}/test_2016_flickr.de,{texts}/test_2016_flickr.en", limit=50)
    expected = fairseq_translations(
        folder / "checkpoint24.pt", list(raw.columns["source"]), beam=5, bpe=model.bpe
    )
    score = sacrebleu.corpus_bleu(expected, [list(raw.columns["target"])]).score
    binary = load_data(f"fairseq-bin:{folder}/data-bin/test", limit=50)
    for data in (raw, binary):
        found = measure(model, model.encode(data), [], seq2seq("bleu"))
        assert found.hypotheses is not None
        assert list(found.hypotheses.whole) == expected
        assert seq2seq("bleu").compute(found.outcomes.whole) == pytest.approx(score, rel=1e-12)


# -- masks ----------------------------------------------------------------------------------------


def test_masked_translations_are_those_of_zeroed_columns(builtin: FairseqModel) -> None:
    data = load_data("builtin:mt/test", limit=12)
    head = Head("cross", 2, 2)
    mask = HeadMask.without(builtin.sites, [head])
    search = Search(beam=3)
    found = measure(builtin, builtin.encode(data), [mask], seq2seq("bleu"), search=search)
    site = next(site for site in builtin.sites if head in site.heads)
    weight = builtin.module.get_submodule(site.projection).weight
    kept = weight.detach().clone()
    columns = slice(head.index * site.head_dim, (head.index + 1) * site.head_dim)
    try:
        with torch.no_grad():
            weight[:, columns] = 0
        zeroed = measure(builtin, builtin.encode(data), [], seq2seq("bleu"), search=search)
    finally:
        with torch.no_grad():
            weight.copy_(kept)
    assert found.hypotheses is not None
    assert zeroed.hypotheses is not None
    assert found.hypotheses.masked[0] == zeroed.hypotheses.whole
    assert found.hypotheses.masked[0] != found.hypotheses.whole
    for name, values in zeroed.outcomes.whole.items():
        np.testing.assert_array_equal(found.outcomes.masked[name][0], values)


def test_replacements(builtin: FairseqModel) -> None:
    examples = builtin.encode(load_data("builtin:mt/test", limit=8))
    mask = HeadMask.without(builtin.sites, [Head("cross", 2, 2)])
    options: dict[str, Any] = {"search": Search(beam=1)}
    zero, mean = (
        measure(builtin, examples, [mask], seq2seq("bleu"), replacement=one, **options)
        for one in (None, Mean())
    )
    assert zero.hypotheses is not None
    assert mean.hypotheses is not None
    assert zero.hypotheses.whole == mean.hypotheses.whole
    assert zero.hypotheses.masked != mean.hypotheses.masked
    with pytest.raises(HeadtoolError, match="aligned by position"):
        measure(builtin, examples, [mask], seq2seq("bleu"), replacement=Resample(), **options)


def test_some_of_the_examples_keep_their_references(builtin: FairseqModel) -> None:
    examples = builtin.encode(load_data("builtin:mt/test", limit=20))
    chosen = np.array([17, 3, 8])
    options: dict[str, Any] = {"search": Search(beam=1)}
    whole = measure(builtin, examples, [], seq2seq("bleu"), **options)
    part = measure(builtin, examples.take(chosen), [], seq2seq("bleu"), **options)
    for name, values in part.outcomes.whole.items():
        np.testing.assert_array_equal(values, whole.outcomes.whole[name][chosen])


def test_metrics_of_predictions_do_not_decode(
    builtin: FairseqModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("headtool.engine.measurement.translate")
    examples = builtin.encode(load_data("builtin:mt/test", limit=4))
    found = measure(builtin, examples, [], seq2seq("loss"))
    assert found.hypotheses is None
    assert found.texts() == {}
    assert described(seq2seq("loss"), None) == {}
    with pytest.raises(ValueError, match="loss does not decode"):
        measure(builtin, examples, [], seq2seq("loss"), search=Search())


def test_provenance_says_how(builtin: FairseqModel) -> None:
    search = builtin.generator(Search()).search
    found = described(seq2seq("bleu"), search)
    assert found["signature"].startswith("BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|")
    assert found["search"]["beam"] == 5
    assert found["search"]["length_penalty"] == 1.0


# -- odd sentences --------------------------------------------------------------------------------


@pytest.mark.slow
def test_odd_sentences_are_translated_like_others(builtin: FairseqModel) -> None:
    """An empty line, a line of 500 tokens, and one of nothing that the model knows."""
    plain = load_data("builtin:mt/test", limit=6)
    odd = ("", " ".join(["the crane"] * 250), "鶴 ☃ \u202e zzqx")
    data = TextData(
        "odd",
        "translation",
        {
            "source": (*plain.columns["source"], *odd),
            "target": (*plain.columns["target"], "", "x", "y"),
        },
    )
    search = Search(beam=2)
    mask = HeadMask.without(builtin.sites, [Head("cross", 0, 0)])
    found = measure(builtin, builtin.encode(data), [mask], seq2seq("bleu"), search=search)
    alone = measure(builtin, builtin.encode(plain), [mask], seq2seq("bleu"), search=search)
    assert found.hypotheses is not None
    assert alone.hypotheses is not None
    assert found.hypotheses.whole[:6] == alone.hypotheses.whole
    assert found.hypotheses.masked[0][:6] == alone.hypotheses.masked[0]
    assert len(found.hypotheses.whole) == 9
    expected = fairseq_translations(mt.model_folder() / "checkpoint.pt", list(odd), beam=2)
    assert list(found.hypotheses.whole[6:]) == expected


# -- references -----------------------------------------------------------------------------------


@pytest.fixture
def pieces(tmp_path: Path) -> Path:
    """A sentencepiece model of a few letters."""
    sentencepiece = pytest.importorskip("sentencepiece")
    text = tmp_path / "text"
    text.write_text("abc def\nghi jkl\nabcdefghijkl\n" * 3)
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(tmp_path / "m"), model_type="char", vocab_size=16,
        minloglevel=2,
    )  # fmt: skip
    return tmp_path / "m.model"


def test_references_of_symbols_are_those_of_fairseq_generate(
    save_fairseq: Callable[..., Path], pieces: Path
) -> None:
    model = FairseqModel.load(
        str(save_fairseq()),
        device=torch.device("cpu"),
        dtype=torch.float32,
        bpe=f"sentencepiece:{pieces}",
    )
    targets = ("c d ▁ e f", "c <unk> d", "")
    data = TextData(
        "bin", "translation", {"source": ("a", "b", "c"), "target": targets}, pretokenized=True
    )
    dictionary = model.target_dictionary
    dictionary.add_symbol("▁")
    lines = [dictionary.encode_line(line, add_if_not_exist=False).long() for line in targets]
    expected = [dictionary.string(line, "sentencepiece", escape_unk=True) for line in lines]
    assert reference_texts(model, model.encode(data)) == tuple(expected)
    assert expected[1] == "c<<unk>>d"


@pytest.mark.parametrize("binary", [True, False])
def test_subwords_that_nobody_joins_are_reported(
    save_fairseq: Callable[..., Path], caplog: pytest.LogCaptureFixture, binary: bool
) -> None:
    model = FairseqModel.load(str(save_fairseq()), device=torch.device("cpu"), dtype=torch.float32)
    for target, told in (("c@@ d e", True), ("▁c d", True), ("c d", False)):
        columns = {"source": ("a",), "target": (target,)}
        data = TextData("bin", "translation", columns, pretokenized=binary)
        caplog.clear()
        assert reference_texts(model, model.encode(data)) == (target,)
        assert ("no `bpe` says how to join them" in caplog.text) is told


@pytest.mark.parametrize(("lines", "told"), [(100, True), (99, False)])
def test_tokenised_references_are_reported(
    builtin: FairseqModel, caplog: pytest.LogCaptureFixture, lines: int, told: bool
) -> None:
    targets = ("a sentence .",) * lines + ("a sentence.",) * 100
    columns = {"source": ("the crane " * 5,) * len(targets), "target": targets}
    data = TextData("text", "translation", columns)
    assert reference_texts(builtin, builtin.encode(data)) == targets
    assert ("looks tokenised (100 references" in caplog.text) is told


def test_references_of_text_are_taken_as_they_are(builtin: FairseqModel) -> None:
    lines = ("  two  spaces ", "")
    data = TextData("text", "translation", {"source": ("the crane", "it"), "target": lines})
    assert reference_texts(builtin, builtin.encode(data)) == lines

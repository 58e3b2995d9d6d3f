"""Loading a fairseq model: its architecture, dictionaries and segmentation, and what is refused."""

from __future__ import annotations

import dataclasses
import logging
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from headtool.data import TextData
from headtool.errors import HeadtoolError
from headtool.models.fairseq import parts as fairseq_parts
from headtool.models.fairseq.model import FairseqModel
from headtool.quiet import silence

Save = Callable[..., Path]


def load(path: Path, **options: Any) -> FairseqModel:
    return FairseqModel.load(str(path), device=torch.device("cpu"), dtype=torch.float32, **options)


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(HeadtoolError) as error:
        load(path, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


def change(path: Path, function: Callable[[dict[str, Any]], object]) -> Path:
    """Rewrite a checkpoint."""
    checkpoint = torch.load(path, weights_only=False)
    function(checkpoint)
    torch.save(checkpoint, path)
    return path


def record(path: Path, **options: Any) -> Path:
    """Let a checkpoint record other options than those that it was built with."""
    return change(path, lambda checkpoint: vars(checkpoint["args"]).update(options))


# -- architecture -------------------------------------------------------------------------------

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "plain": {},
    "iwslt": {"arch": "transformer_iwslt_de_en"},
    "pre-norm": {"encoder_normalize_before": True, "decoder_normalize_before": True},
    "no final norm": {"decoder_normalize_before": True, "no_decoder_final_norm": True},
    "learned positions": {
        "encoder_learned_pos": True,
        "decoder_learned_pos": True,
        "max_source_positions": 30,
        "max_target_positions": 20,
    },
    "no positions": {"no_token_positional_embeddings": True},
    "tied output": {"share_decoder_input_output_embed": True},
    "one embedding": {"share_all_embeddings": True},
    "normed embedding": {"layernorm_embedding": True, "no_scale_embedding": True},
    "activation": {"activation_fn": "gelu"},
    "wide decoder": {
        "decoder_embed_dim": 24,
        "decoder_ffn_embed_dim": 40,
        "decoder_layers": 3,
        "decoder_input_dim": 20,
        "decoder_output_dim": 28,
        "decoder_attention_heads": 2,
    },
    "scaled": {"scale_attn": True, "scale_fc": True, "scale_heads": True, "scale_resids": True},
    "decoder only": {"no_cross_attention": True},
}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_model_computes_what_fairseq_built(save_fairseq: Save, name: str) -> None:
    path = save_fairseq(**ARCHITECTURES[name])
    model = load(path)
    saved = torch.load(path, weights_only=False)
    with silence():
        from fairseq.models.transformer import TransformerModel

        task = Namespace(
            source_dictionary=model.source_dictionary, target_dictionary=model.target_dictionary
        )
        reference = TransformerModel.build_model(saved["args"], task).eval()
        reference.load_state_dict(saved["model"])
    tokens, previous = torch.tensor([[4, 6, 5, 8, 2]]), torch.tensor([[2, 7, 5]])
    wanted, _ = reference(tokens, torch.tensor([5]), previous)
    found, _ = model.module(tokens, torch.tensor([5]), previous)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    kinds = ["enc-self", "dec-self", "cross"][: 2 if name == "decoder only" else 3]
    assert list(model.sites.kinds) == kinds
    assert model.sites[-1].n_heads == (2 if name == "wide decoder" else 4)


def test_every_option_of_a_transformer_is_taken_or_left_knowingly(save_fairseq: Save) -> None:
    """An option that a later fairseq adds must be sorted into one of these lists."""
    from fairseq.models.transformer import TransformerConfig

    parts = ("encoder", "decoder", "quant_noise")
    config = TransformerConfig()
    names = {field.name for field in dataclasses.fields(config)} - set(parts)
    for part in parts:
        names |= {f"{part}_{field.name}" for field in dataclasses.fields(getattr(config, part))}
    taken = {
        *fairseq_parts._POSITIVE,
        *fairseq_parts._SWITCHES,
        *fairseq_parts._SHARES,
        *fairseq_parts._UNSUPPORTED,
        "activation_fn",
    }
    left = {
        # training only
        *("checkpoint_activations", "offload_activations", "min_params_to_wrap", "export"),
        *("encoder_layerdrop", "decoder_layerdrop", "quant_noise_pq", "quant_noise_pq_block_size"),
        *("quant_noise_scalar", "encoder_layers_to_keep", "decoder_layers_to_keep"),
        # read files, or are read by nothing in a plain transformer
        *("encoder_embed_path", "decoder_embed_path", "char_inputs", "base_sublayers"),
        *("base_shuffle", "adaptive_softmax_dropout", "adaptive_softmax_factor"),
        *("tie_adaptive_weights", "tie_adaptive_proj"),
    }
    internal = {name for name in names if name.endswith("__name")} | {"_name"}
    assert names - internal - taken - left == set()
    assert not taken & left


def test_options_under_cfg_are_read_like_those_under_args(save_fairseq: Save) -> None:
    path = save_fairseq(data="bin")
    before = load(path).fingerprint

    def move(checkpoint: dict[str, Any]) -> None:
        args = checkpoint["args"]
        task = {"_name": "translation", "source_lang": "xx", "target_lang": "yy", "data": "bin"}
        model = Namespace(**{**vars(args), "source_lang": None, "target_lang": None})
        checkpoint.update(args=None, cfg={"model": model, "task": task})

    change(path, move)
    assert load(path).fingerprint == before

    def contain(checkpoint: dict[str, Any]) -> None:
        from omegaconf import OmegaConf

        checkpoint["cfg"] = OmegaConf.create(checkpoint["cfg"], flags={"allow_objects": True})

    change(path, contain)
    assert load(path).fingerprint == before
    change(path, lambda c: c["cfg"].update(model=vars(c["cfg"]["model"])))
    assert load(path).fingerprint == before
    assert load(path, trust_checkpoint=True).fingerprint == before


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"arch": "lstm"}, "'lstm'"),
        ({"arch": "lstm_lm"}, "'lstm_lm'"),
        ({"arch": "my_arch"}, "'my_arch'"),
        ({"arch": None}, "'None'"),
        ({"arch": ["transformer"]}, "architecture"),
        ({"adaptive_softmax_cutoff": "10,20"}, "--adaptive-softmax-cutoff"),
        ({"merge_src_tgt_embed": True}, "--merge-src-tgt-embed"),
        ({"encoder_layers": "2"}, "encoder_layers"),
        ({"encoder_layers": True}, "encoder_layers"),
        ({"decoder_layers": 0}, "decoder_layers"),
        ({"encoder_attention_heads": 3}, "do not fit"),
        ({"decoder_layers": 3}, "do not fit"),
        ({"decoder_ffn_embed_dim": 8}, "do not fit"),
        ({"encoder_normalize_before": "yes"}, "encoder_normalize_before"),
        ({"activation_fn": "os.system"}, "activation_fn"),
        ({"dropout": 7}, "dropout"),
        ({"share_all_embeddings": True}, "joined dictionary"),
        ({"source_lang": None}, "languages"),
        ({"target_lang": "../../etc"}, "languages"),
        ({"target_lang": "zz"}, "dict.zz.txt"),
    ],
)
def test_options_that_cannot_be_are_one_line(
    save_fairseq: Save, options: dict[str, Any], text: str
) -> None:
    assert text in refusal(record(save_fairseq(), **options))


def test_checkpoints_without_a_model_are_one_line(save_fairseq: Save) -> None:
    path = save_fairseq()
    assert "embeddings of the decoder" in refusal(
        change(path, lambda c: c["model"].pop("decoder.embed_tokens.weight"))
    )
    assert "no fairseq model" in refusal(change(path, lambda c: c.pop("model")))
    assert "no fairseq model" in refusal(change(save_fairseq(), lambda c: c.pop("args")))


def test_weights_that_are_not_finite_are_one_line(save_fairseq: Save) -> None:
    path = save_fairseq()
    name = "encoder.layers.1.self_attn.q_proj.weight"
    assert "not finite" in refusal(change(path, lambda c: c["model"][name].fill_(float("nan"))))


# -- nothing that a checkpoint says is followed -------------------------------------------------


def test_code_and_files_that_a_checkpoint_names_are_left_alone(
    save_fairseq: Save, tmp_path: Path
) -> None:
    mark, plugin = tmp_path / "mark", tmp_path / "plugin"
    plugin.mkdir()
    code = f"open({str(mark)!r}, 'w').close()"
    (plugin / "__init__.py").write_text(code)
    path = record(
        save_fairseq(),
        user_dir=str(plugin),
        encoder_embed_path=str(tmp_path / "no such embeddings"),
        decoder_embed_path=str(tmp_path / "no such embeddings"),
        bpe="sentencepiece",
        sentencepiece_model=str(tmp_path / "no such model"),
        restore_file=str(tmp_path / "no such checkpoint"),
        eval_bleu_args=code,
    )
    load(path)
    assert "plugin" not in sys.modules
    # fairseq evaluates the text of these as Python.
    for option in (
        "adaptive_softmax_cutoff",
        "encoder_xformers_att_config",
        "decoder_xformers_att_config",
        "base_layers",
        "activation_fn",
        "encoder_layers",
        "share_all_embeddings",
    ):
        refusal(record(save_fairseq(), **{option: code}))
    assert not mark.exists()


# -- dictionaries -------------------------------------------------------------------------------


def test_dictionaries_come_from_the_flag_the_checkpoint_s_folder_or_the_data(
    save_fairseq: Save, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [tmp_path / name for name in ("run", "first", "second", "flag")]
    for folder in folders:
        folder.mkdir()
    run, first, second, flag = folders
    path = save_fairseq(run, data=f"{first}:second")

    def move(old: Path, new: Path) -> None:
        for file in old.glob("dict.*.txt"):
            file.rename(new / file.name)

    load(path)
    move(run, first)
    load(path)
    move(first, second)
    monkeypatch.chdir(tmp_path)  # "second" is meant from here
    load(path)
    move(second, flag)
    text = refusal(path)
    assert "`fairseq_data`" in text
    assert all(str(folder) in text for folder in (run, first, "dict.xx.txt", "dict.yy.txt"))
    load(path, fairseq_data=str(flag))
    move(flag, run)
    assert str(flag) in refusal(path, fairseq_data=str(flag))


def test_dictionaries_that_do_not_fit_are_one_line(save_fairseq: Save, tmp_path: Path) -> None:
    path = save_fairseq()
    dictionary = tmp_path / "dict.xx.txt"
    lines = dictionary.read_text().splitlines(keepends=True)
    for content, text in (
        ("".join(lines[1:]), "16 encoder embeddings but its dictionary has 15 symbols"),
        ("".join([*lines, lines[0]]), "Duplicate"),
        ("no count\n", "fairseq-preprocess"),
        ("", "empty"),
    ):
        dictionary.write_text(content)
        assert text in refusal(path)
    dictionary.write_bytes(b"\xff 1\n")
    assert "UTF-8" in refusal(path)


# -- segmentation -------------------------------------------------------------------------------


@pytest.fixture
def pieces(tmp_path: Path) -> Path:
    """A sentencepiece model of the letters that the small model knows."""
    sentencepiece = pytest.importorskip("sentencepiece")
    folder = tmp_path / "pieces"
    folder.mkdir()
    text = folder / "text"
    text.write_text("abc def\nghi jkl\nabcdefghijkl\n" * 3)
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(folder / "m"), model_type="char", vocab_size=16,
        minloglevel=2,
    )  # fmt: skip
    return folder / "m.model"


def test_a_sentencepiece_model_is_used_when_named_or_beside_the_checkpoint(
    save_fairseq: Save, pieces: Path, tmp_path: Path
) -> None:
    path = save_fairseq()
    assert load(path).bpe.name == "none"
    named = load(path, bpe=f"sentencepiece:{pieces}").bpe
    assert named.encode("ab c") == "▁ a b ▁ c"
    assert named.decode("▁ a b ▁ c") == "ab c"
    (tmp_path / "any.model").write_bytes(pieces.read_bytes())
    assert load(path).bpe.encode("ab") == "▁ a b"
    (tmp_path / "other.model").write_bytes(b"?")
    assert load(path).bpe.name == "none"  # which of the two cannot be known
    (tmp_path / "sentencepiece.bpe.model").write_bytes(pieces.read_bytes())
    assert load(path).bpe.encode("ab") == "▁ a b"
    assert load(path, bpe="none").bpe.encode("ab") == "ab"


def test_raw_text_goes_through_the_segmentation(save_fairseq: Save, pieces: Path) -> None:
    model = load(save_fairseq(), bpe=f"sentencepiece:{pieces}")
    rows = model.encode(
        TextData("t", "translation", {"source": ("abc", ""), "target": ("cde", "fghi")})
    ).rows
    index, unknown = model.source_dictionary.index, model.source_dictionary.unk()
    assert rows[0]["source"] == [unknown, *(index(letter) for letter in "abc"), 2]
    assert rows[1]["source"] == [2]


def test_other_segmentations_of_fairseq(save_fairseq: Save, pieces: Path) -> None:
    path = save_fairseq()
    assert load(path, bpe="characters").bpe.encode("a b") == "a ▁ b"
    assert load(path, bpe="bytes").bpe.encode("ab") == "a b"
    assert load(path, bpe=f"byte_bpe:{pieces}").bpe.encode("ab") == "▁ a b"


def test_segmentations_that_cannot_be_are_one_line(
    save_fairseq: Save, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = save_fairseq(), tmp_path / "text"
    other.write_text("x y z\n")
    monkeypatch.setitem(sys.modules, "subword_nmt", None)
    monkeypatch.setitem(sys.modules, "fastBPE", None)
    for bpe, text in (
        ("sentencepice:x", "did you mean 'sentencepiece'?"),
        ("sentencepiece", "`bpe=sentencepiece:FILE`"),
        (f"sentencepiece:{tmp_path / 'none'}", "no such file"),
        (f"sentencepiece:{other}", "is no sentencepiece file"),
        ("none:x", "takes no file"),
        (f"subword_nmt:{other}", "pip install subword-nmt"),
        (f"fastbpe:{other}", "pip install fastBPE"),
    ):
        assert text in refusal(path, bpe=bpe), bpe


def test_a_segmentation_that_ends_the_process_is_one_line(
    save_fairseq: Save, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    """subword_nmt complains on stderr and calls sys.exit where it cannot read its codes."""

    def complain() -> None:
        print("Error: invalid line 1", file=sys.stderr)
        sys.exit(1)

    module = type(sys)("subword_nmt")
    module.apply_bpe = Namespace(create_parser=complain)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "subword_nmt", module)
    codes = tmp_path / "codes"
    codes.write_text("x\n")
    assert "is no subword_nmt file" in refusal(save_fairseq(), bpe=f"subword_nmt:{codes}")
    assert capfd.readouterr() == ("", "")


# -- manners ------------------------------------------------------------------------------------


def test_without_fairseq_the_error_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("fairseq", "fairseq.models", "fairseq.models.transformer"):
        monkeypatch.setitem(sys.modules, name, None)
    text = refusal(tmp_path / "checkpoint.pt")
    assert "needs the package fairseq" in text
    assert 'pip install "headtool[fairseq]"' in text


def test_loading_leaves_the_process_as_it_was(
    save_fairseq: Save, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    path = save_fairseq()
    monkeypatch.setattr(logging.getLogger(), "level", logging.ERROR)
    before = logging.getLogger().handlers[:], torch.random.get_rng_state()
    capfd.readouterr()
    load(path)
    assert logging.getLogger().handlers == before[0]
    assert logging.getLogger().level == logging.ERROR
    assert logging.root.manager.disable == 0
    assert torch.equal(torch.random.get_rng_state(), before[1])
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_the_first_import_of_fairseq_is_silent(save_fairseq: Save) -> None:
    program = (
        "import logging, sys, torch\n"
        "from headtool.models.fairseq.model import FairseqModel\n"
        "assert 'fairseq' not in sys.modules\n"
        "FairseqModel.load(sys.argv[1], device=torch.device('cpu'), dtype=torch.float32)\n"
        "assert 'fairseq' in sys.modules and not logging.root.handlers\n"
    )
    command = [sys.executable, "-W", "error", "-c", program, str(save_fairseq())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

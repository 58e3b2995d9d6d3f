"""A small fairseq model, saved as fairseq-train saves it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

LETTERS = "abcdefghijkl"


@pytest.fixture
def save_fairseq(tmp_path: Path) -> Callable[..., Path]:
    """Save a randomly initialised transformer with its dictionaries; returns the checkpoint.

    Keyword arguments are options as fairseq-train would have recorded them.
    """
    import torch  # most tests need neither

    from headtool.quiet import silence

    with silence():
        pytest.importorskip("fairseq")

    def save(folder: Path = tmp_path, **options: Any) -> Path:
        with silence():
            from fairseq.data import Dictionary
            from fairseq.models.transformer import TransformerModel

        args = Namespace(arch="transformer", task="translation", source_lang="xx", target_lang="yy")
        for side in ("encoder", "decoder"):
            setattr(args, f"{side}_embed_dim", 16)
            setattr(args, f"{side}_ffn_embed_dim", 24)
            setattr(args, f"{side}_layers", 2)
            setattr(args, f"{side}_attention_heads", 4)
        vars(args).update(options)
        dictionaries = {}
        joined = options.get("share_all_embeddings", False)
        for language, letters in (("xx", LETTERS), ("yy", LETTERS if joined else LETTERS[:1:-1])):
            dictionaries[language] = Dictionary()
            for letter in letters:
                dictionaries[language].add_symbol(letter, n=3)
            dictionaries[language].save(str(folder / f"dict.{language}.txt"))
        task = Namespace(source_dictionary=dictionaries["xx"], target_dictionary=dictionaries["yy"])
        with silence(), torch.random.fork_rng():
            torch.manual_seed(7)
            module = TransformerModel.build_model(args, task)
            for weight in module.parameters():  # biases and scales start at zero and one
                torch.nn.init.normal_(weight, mean=float(weight.mean() > 0.5), std=0.3)
        path = folder / "checkpoint.pt"
        torch.save({"args": args, "cfg": None, "model": module.state_dict()}, path)
        return path

    return save

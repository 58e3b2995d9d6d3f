"""Peak memory of loading and gradients, and the time of commands that read weights alone.

Each model is measured in a process of its own. What the process takes before (Python, torch, and a
small model run through everything once) is left out. Activations are what
`headtool.engine.fitting.activation_bytes` counts for the batch: every storage that torch keeps from
the forward pass for the backward pass, the heads' outputs, and the logits, each once; weights are
the bytes of the parameters. The ratio of the peak to both together should be at most 1.2.

    python benchmarks/bench_memory.py --model path/to/model --data text.txt
    python benchmarks/bench_memory.py --random-1b --data text.txt

`--random-1b` writes a Llama-type model of a billion random weights in bfloat16 into a temporary
folder (2 GB) and deletes it afterwards.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

_MEGA = 1e6


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="SPEC of a language model")
    parser.add_argument("--random-1b", action="store_true")
    parser.add_argument("--data", required=True, help="a text file")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--blocks", type=int, default=10, help="blocks of text in the batch")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(_peaks(options)))
    elif options.random_1b:
        with tempfile.TemporaryDirectory() as folder:
            _write_random(Path(folder))
            _report(folder, options)
    else:
        _report(options.model, options)


def _report(model: str, options: argparse.Namespace) -> None:
    given = ["--model", model, "--data", options.data, "--dtype", options.dtype]
    blocks = ["--blocks", str(options.blocks), "--child"]
    ran = subprocess.run(
        [sys.executable, __file__, *given, *blocks], check=True, capture_output=True, text=True
    )
    found = json.loads(ran.stdout.splitlines()[-1])
    both = found["weights"] + found["activations"]
    print(f"{'weights':22}{found['weights'] / _MEGA:9.0f} MB")
    print(f"{'activations':22}{found['activations'] / _MEGA:9.0f} MB, {found['tokens']} tokens")
    for phase in ("load", "fingerprint", "gradient"):
        peak = found[phase]
        of = both if phase == "gradient" else found["weights"]
        seconds = found[f"{phase}_s"]
        print(f"peak, {phase:16}{peak / _MEGA:9.0f} MB, ratio {peak / of:.2f}, {seconds:.1f} s")
    with tempfile.TemporaryDirectory() as folder:
        for name, words in (
            ("heads", ["heads", "--format", "json"]),
            ("magnitude", ["score", "--method", "magnitude", "--data", options.data]),
            ("prune", ["prune", "--mask", f"{folder}/mask.json", "--out", f"{folder}/pruned"]),
        ):
            (Path(folder) / "mask.json").write_text(json.dumps({"0": [0], "1": [1, 2]}))
            start = time.perf_counter()
            command = [sys.executable, "-m", "headtool", *words, "--model", model]
            subprocess.run(
                [*command, "--dtype", options.dtype], check=True, capture_output=True, text=True
            )
            print(f"headtool {name:13}{time.perf_counter() - start:9.1f} s")


def _peaks(options: argparse.Namespace) -> dict[str, float]:
    """Bytes above what the process had before, and seconds, by phase."""
    import headtool
    from headtool.engine.fitting import activation_bytes
    from headtool.models.fingerprints import weights_sha256

    warm = headtool.load_model("builtin:nli", device="cpu")
    headtool.differentiate(warm, warm.encode(headtool.load_data("builtin:nli/matched", limit=4)))
    base, found = _memory("VmRSS"), {}
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far

    def done(phase: str, start: float) -> None:
        found[phase] = _memory("VmHWM") - base
        found[f"{phase}_s"] = time.perf_counter() - start

    start = time.perf_counter()
    model = headtool.load_model(options.model, dtype=options.dtype)
    done("load", start)
    start = time.perf_counter()
    weights_sha256(model.module)
    done("fingerprint", start)
    data = headtool.load_data(options.data)
    examples = model.encode(data, batch_tokens=1_000_000).head(options.blocks)
    start = time.perf_counter()
    headtool.differentiate(model, examples)
    done("gradient", start)
    weights = sum(p.numel() * p.element_size() for p in model.module.parameters())
    # Counted on one example: all of them would be held a second time.
    longest = np.argsort(examples.lengths)[-1:]
    per_token = activation_bytes(model, examples, longest) / int(examples.lengths[longest[0]])
    tokens = len(examples) * int(examples.lengths.max())
    return {**found, "weights": weights, "activations": per_token * tokens, "tokens": tokens}


def _memory(entry: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line for line in lines if line.startswith(entry)).split()[1]) * 1024


def _write_random(folder: Path) -> None:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    import headtool

    tokenizer = headtool.load_model("builtin:nli", device="cpu").tokenizer
    config = LlamaConfig(
        hidden_size=2048,
        intermediate_size=8192,
        num_hidden_layers=16,
        num_attention_heads=32,
        num_key_value_heads=8,
        vocab_size=32_000,
        tie_word_embeddings=True,
        dtype=torch.bfloat16,
    )
    with torch.device("meta"):
        model = LlamaForCausalLM(config).to(torch.bfloat16)
    model.to_empty(device="cpu")
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("norm.weight"):
                weight.fill_(1)
            else:
                weight.uniform_(-0.03, 0.03, generator=generator)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    main()

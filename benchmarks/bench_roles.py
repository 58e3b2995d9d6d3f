"""Peak memory and time of counting roles on few and on many sentences; each in its own process.

The ratio of what counting adds to the process's peak must stay near one: sums per head and role are
kept, and nothing of a sentence. The allocator (glibc's) is told to give back what is freed, or the
peak would show its reserves for batches of many shapes.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time

import numpy as np


def made_up(count: int, seed: int = 0) -> str:
    """Sentences of the built-in data set under random trees, as CoNLL-U."""
    from headtool.data import load_data

    rng = np.random.default_rng(seed)
    texts = load_data("builtin:nli/matched").columns["text_a"]
    lines = []
    for number in range(count):
        words = texts[number % len(texts)].split()
        order = rng.permutation(len(words))
        heads = np.zeros(len(words), dtype=int)
        for place, word in enumerate(order[1:], start=1):
            heads[word] = order[rng.integers(place)] + 1
        for place, (word, head) in enumerate(zip(words, heads, strict=True), start=1):
            relation = "root" if head == 0 else f"relation{rng.integers(20)}"
            lines.append(f"{place}\t{word}\t_\t_\t_\t_\t{head}\t{relation}\t_\t_")
        lines.append("")
    return "\n".join(lines) + "\n"


def peak_of(model_spec: str, treebank: str | None, sentences: int) -> None:
    """Print the peak memory in MiB before and after counting, and the seconds that it took."""
    import tempfile
    from pathlib import Path

    from headtool.data.conllu import read_treebank
    from headtool.models import load_model
    from headtool.patterns.counting import count_roles, request_roles
    from headtool.patterns.parses import encode_treebank

    model = load_model(model_spec)
    pieces = model.pieces()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "made-up.conllu"
        if treebank is None:
            file.write_text(made_up(2000))
        bank = read_treebank([treebank or str(file)])
    parsed = encode_treebank(pieces, bank, batch_tokens=512)
    # Short and long sentences, so that both sides meet batches of the same shapes.
    order = parsed.examples.lengths.argsort(kind="stable")
    order = order[np.linspace(0, len(order) - 1, sentences).astype(np.int64)]
    examples, parses = parsed.examples.take(order), [parsed.parses[i] for i in order]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    start = time.perf_counter()
    count_roles(pieces, examples, request_roles(model, bank), parses=parses)
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(before, after, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="builtin:nli")
    parser.add_argument("--treebank", help="CoNLL-U file; default: made-up trees")
    parser.add_argument("--few", type=int, default=200)
    parser.add_argument("--many", type=int, default=2000)
    parser.add_argument("--child", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        peak_of(arguments.model, arguments.treebank, arguments.child)
        return
    added = []
    lean = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    for sentences in (arguments.few, arguments.many):
        command = [sys.executable, __file__, "--child", str(sentences), "--model", arguments.model]
        command += ["--treebank", arguments.treebank] if arguments.treebank else []
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, env={**os.environ, **lean}
        )
        before, after, seconds = map(float, done.stdout.split())
        added.append(after - before)
        print(
            f"{sentences} sentences: {before:.0f} MiB before, {after:.0f} MiB at the peak, "
            f"{seconds:.1f} s"
        )
    print(
        f"roles of {arguments.many // arguments.few}x the sentences add "
        f"{added[1] / max(added[0], 1):.2f}x the memory"
    )


if __name__ == "__main__":
    main()

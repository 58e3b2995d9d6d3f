"""Time how commands start, against what they cannot do without; both sides in turn, as processes.

- ``import headtool`` against an empty interpreter, in seconds (wanted: under 0.1 s more);
- ``headtool methods`` and a mistake in an option against ``headtool --help``: none imports torch;
- ``headtool score`` on a small model against a program that imports torch and the same classes of
  transformers, loads the same model, and runs a forward and a backward pass on the same examples
  (wanted: at most 1.3).

Run: ``python benchmarks/bench_start.py [ROUNDS]``.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CLAIMS = {"import": 0.1, "score": 1.3}
EXAMPLES = 32

PLAIN = """
import sys
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

folder, data = sys.argv[1:]
model = AutoModelForSequenceClassification.from_pretrained(folder)
tokenizer = AutoTokenizer.from_pretrained(folder)
rows = [line.split("\\t") for line in open(data, encoding="utf-8").read().splitlines()[1:]]
batch = tokenizer([r[0] for r in rows], [r[1] for r in rows], padding=True, return_tensors="pt")
labels = torch.tensor([model.config.label2id[row[2]] for row in rows])
model(**batch, labels=labels).loss.backward()
"""


def seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return time.perf_counter() - started


def compared(ours: list[str], theirs: list[str], rounds: int) -> tuple[float, float]:
    """Medians of both, run in turn after one run of each that fills the caches."""
    seconds(ours), seconds(theirs)
    pairs = [(seconds(ours), seconds(theirs)) for _ in range(rounds)]
    first, second = zip(*pairs, strict=True)
    return statistics.median(first), statistics.median(second)


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    headtool = [sys.executable, "-m", "headtool"]
    python = [sys.executable, "-c"]
    failed = False
    ours, theirs = compared([*python, "import headtool"], [*python, "pass"], rounds)
    print(f"import headtool    {1000 * (ours - theirs):7.0f} ms more than python alone")
    failed |= ours - theirs > CLAIMS["import"]
    for arguments in (["methods"], ["score", "--set", "gradient.granularty=token"]):
        ours, theirs = compared([*headtool, *arguments], [*headtool, "--help"], rounds)
        words = "headtool " + " ".join(arguments[:2])
        print(f"{words:18s} {1000 * ours:7.0f} ms  {ours / theirs:.2f} of headtool --help")
    with tempfile.TemporaryDirectory() as place:
        from headtool import load_data
        from headtool.builtin.nli import model_folder

        data = Path(place) / "data.tsv"
        rows = load_data("builtin:nli/matched", limit=EXAMPLES)
        columns = (rows.columns[name] for name in ("text_a", "text_b", "label"))
        lines = ["\t".join(row) for row in zip(*columns, strict=True)]
        data.write_text("text_a\ttext_b\tlabel\n" + "\n".join(lines) + "\n", encoding="utf-8")
        score = [*headtool, "score", "--model", str(model_folder()), "--data", str(data)]
        subprocess.run([*score, "--quiet"], check=True, stdout=subprocess.DEVNULL)
        plain = [*python, PLAIN, str(model_folder()), str(data)]
        subprocess.run(plain, check=True, stdout=subprocess.DEVNULL)
        ours, theirs = compared(score, plain, rounds)
    print(
        f"headtool score     {1000 * ours:7.0f} ms  {ours / theirs:.2f} of imports and computation"
    )
    return int(failed or ours / theirs > CLAIMS["score"])


if __name__ == "__main__":
    sys.exit(main())

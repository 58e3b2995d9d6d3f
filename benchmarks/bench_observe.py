"""Peak memory of `observe` on few and on many examples; each in a process of its own.

The ratio of what observing adds to the process's peak must stay near one: nothing that grows with
the number of examples is kept, but for two numbers per example and head.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys


def peak_of(model_spec: str, data_spec: str, examples: int) -> None:
    """Print the process's peak memory in MiB before and after observing."""
    from headtool.data import load_data
    from headtool.methods.confidence import Confidence
    from headtool.models import load_model

    model = load_model(model_spec)
    encoded = model.encode(load_data(data_spec))
    # The longest examples come first, so that both sides meet the same largest batch.
    chosen = encoded.take(encoded.lengths.argsort()[::-1][:examples].copy())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    Confidence().score(model, chosen)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(before, after)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="builtin:nli")
    parser.add_argument("--data", default="builtin:nli/matched")
    parser.add_argument("--few", type=int, default=200)
    parser.add_argument("--many", type=int, default=2000)
    parser.add_argument("--child", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        peak_of(arguments.model, arguments.data, arguments.child)
        return
    added = []
    for examples in (arguments.few, arguments.many):
        command = [sys.executable, __file__, "--child", str(examples)]
        command += ["--model", arguments.model, "--data", arguments.data]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        before, after = map(float, done.stdout.split())
        added.append(after - before)
        print(f"{examples} examples: {before:.0f} MiB before, {after:.0f} MiB at the peak")
    print(
        f"observing {arguments.many // arguments.few}x the examples adds "
        f"{added[1] / max(added[0], 1):.2f}x the memory"
    )


if __name__ == "__main__":
    main()

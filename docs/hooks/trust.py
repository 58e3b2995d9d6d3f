"""Write the table of docs/trust.md again: `python docs/hooks/trust.py RUN docs/trust.md`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from headtool.reports.wording.known_truth import found_by, mistakes, variant_name
from headtool.results.runs import read_run

BEGIN, END = "<!-- from headtool validate -->", "<!-- end -->"


def table(run: Path) -> str:
    """Return the table of a run of `headtool validate`, as Markdown."""
    frame = read_run(run).table("validation")
    lines = [
        "| method | AUROC, single heads | AUROC, sets | kept | wrong about | forward | backward |",
        "| --- | --- | --- | ---: | --- | ---: | ---: |",
    ]
    for _, row in frame.iterrows():
        name, _, options = variant_name(row).partition(" ")
        cells = [
            f"`{name}`" + (f" `{options}`" if options else ""),
            _interval(row, "auroc_single"),
            _interval(row, "auroc_set"),
            f"{row['kept']:.1f}",
            ", ".join(mistakes(row)) or "–",
            *(f"{row[name]:.3g}" for name in ("forward", "backward")),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", found_by(frame)])


def _interval(row: Any, name: str) -> str:
    low, high = max(0.0, row[f"{name}_low"]), min(1.0, row[f"{name}_high"])
    return f"{row[name]:.2f} ({low:.2f} to {high:.2f})"


def main() -> None:
    """Put the table of a run between the marks of a page."""
    run, page = map(Path, sys.argv[1:])
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    text = f"{before}{BEGIN}\n\n{table(run)}\n\n{END}{after}"
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

"""Take the picture of the report that README shows: `make picture`.

It opens a report in Chromium, the one that the environment variable HEADTOOL_CHROMIUM names or
else Playwright's own, and writes the first screen as a PNG of 256 colours.
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

SIZE = (1200, 1370)


def take(report: Path, picture: Path) -> None:
    """Write the first screen of a report.

    Parameters
    ----------
    report
        An HTML report.
    picture
        The PNG to write.
    """
    from PIL import Image
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.environ.get("HEADTOOL_CHROMIUM"))
        page = browser.new_page(viewport={"width": SIZE[0], "height": SIZE[1]})
        page.goto(report.resolve().as_uri())
        shot = Image.open(io.BytesIO(page.screenshot()))
        browser.close()
    whole = shot.convert("RGB")
    few = whole.quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=8, dither=Image.Dither.NONE)
    few.save(picture, optimize=True)


if __name__ == "__main__":
    take(Path(sys.argv[1]), Path(sys.argv[2]))

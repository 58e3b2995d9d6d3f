"""What builds the documentation: tutorials that run, pages of commands, names and notebooks."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
HOOKS = ROOT / "docs" / "hooks"


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Load one of the hooks, as mkdocs does: with its folder on the path."""
    monkeypatch.syspath_prepend(HOOKS)

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(name, HOOKS / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    return load


PAGE = """\
# Title

```python run
number = 6 * 7
print("first")
number
```

```python file=words.txt
some words
```

```sh run fold
cat words.txt | tr a-z A-Z
```

<!-- picture: words.txt | A picture of words -->

```sh
never run
```
"""


def test_pages_run_in_order_and_show_what_they_print(hook: Any, tmp_path: Path) -> None:
    tutorials = hook("tutorials")
    page = tutorials.Page("tutorials/page.md", PAGE)
    tutorials.run_page(page, tmp_path / "run")
    text = tutorials.with_outputs(page, tmp_path / "run")
    assert "```{ .text .output }\nfirst\n42\n```" in text
    assert '??? example "What it prints"\n\n    ```{ .text .output }\n    SOME WORDS\n' in text
    assert "![A picture of words](page/words.txt)" in text
    assert "```sh\nnever run\n```" in text
    assert tutorials.shown_files(page, tmp_path / "run")["words.txt"].read_text() == "some words\n"


@pytest.mark.parametrize(
    ("block", "part"),
    [
        ("```sh run\nfalse\n```\n", "$ false"),
        pytest.param(
            "```sh run\nheadtool score --method gradeint\n```\n",
            "did you mean 'gradient'",
            marks=pytest.mark.slow,
        ),
        ("```python run\n1 / 0\n```\n", "ZeroDivisionError"),
    ],
)
def test_a_failing_block_fails_the_build(hook: Any, tmp_path: Path, block: str, part: str) -> None:
    tutorials = hook("tutorials")
    with pytest.raises(tutorials.BuildError, match=r"^a\.md failed") as error:
        tutorials.run_page(tutorials.Page("a.md", block), tmp_path / "run")
    assert part in str(error.value)
    assert not (tmp_path / "run" / "outputs.json").exists()


def test_a_page_runs_again_only_if_something_changed(hook: Any) -> None:
    tutorials = hook("tutorials")
    page = tutorials.Page("a.md", PAGE)
    words = tutorials.Page("a.md", PAGE.replace("# Title", "# Other words"))
    code = tutorials.Page("a.md", PAGE.replace("6 * 7", "6 * 8"))
    assert page.key("source") == words.key("source")
    assert page.key("source") != code.key("source")
    assert page.key("source") != page.key("other source")


def test_a_page_without_its_package_says_so(hook: Any) -> None:
    tutorials = hook("tutorials")
    page = tutorials.Page("a.md", "# Title\n\n<!-- needs: no_such -->\n\n```sh run\nx\n```\n")
    assert page.lacking == "no_such"
    assert "built without no_such" in tutorials.with_outputs(page, None)


def test_every_command_and_public_name_has_its_place(hook: Any) -> None:
    import headtool

    generated = hook("generated")
    commands = generated.command_pages()
    assert list(commands) == generated.command_names()
    assert "<code>--method NAME,...</code>" in commands["score"]
    assert "headtool score --method gradient\n" in commands["score"]
    named = {
        line.removeprefix("::: ")
        for page in generated.api_pages().values()
        for line in page.splitlines()
        if line.startswith("::: ")
    }
    assert {f"headtool.{name}" for name in headtool.__all__} <= named
    assert "headtool.methods.gradient.Gradient" in named


def test_notebooks_become_pages(hook: Any, tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Title"]},
        {
            "cell_type": "code",
            "source": ["1 + 1"],
            "outputs": [
                {"data": {"text/plain": ["2"]}},
                {"data": {"text/html": ["<b>\n\n2</b>"], "text/plain": ["2"]}},
                {"data": {"image/png": "aGk=\n", "text/plain": ["<Figure>"]}},
                {"name": "stderr", "text": ["noise"]},
            ],
        },
    ]
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": cells}))
    text = hook("notebooks").as_markdown(tmp_path / "a.ipynb")
    assert text.startswith("# Title\n")
    assert "```python\n1 + 1\n```\n\n```{ .text .output }\n2\n```" in text
    assert '<div class="shown"><b>\n2</b></div>' in text
    assert 'src="data:image/png;base64,aGk="' in text
    assert "noise" not in text
    assert "Figure" not in text

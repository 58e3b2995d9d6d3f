"""Figures of roles name methods and roles."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from headtool.reports.contents.run import Contents
from headtool.reports.formats.figures import write_figures
from headtool.reports.formats.role_figures import draw_survival
from headtool.reports.writing import write_report


def test_figures_for_a_paper(with_known_roles: Contents, tmp_path: Path) -> None:
    written = {
        path.name: path for path in write_figures(with_known_roles, tmp_path, formats=("svg",))
    }
    assert {"role-survival.svg", "scores.svg", "heads.svg"} <= set(written)
    for path in written.values():
        assert path.stat().st_size > 2000


def test_the_figure_of_survival_names_methods_and_roles(with_known_roles: Contents) -> None:
    figure = Figure()
    axes = figure.subplots(4, 3, squeeze=False)
    draw_survival(with_known_roles, axes)
    heads = with_known_roles.table("role_survival").drop_duplicates("role").set_index("role")
    amounts = [heads.loc[role, "heads"] for role in ("positional", "syntactic", "none")]
    names = ("positional", "syntactic", "no role")
    assert [axis.get_title() for axis in axes[0]] == [
        f"{name} ({amount})" for name, amount in zip(names, amounts, strict=True)
    ]
    assert [row[0].get_ylabel() for row in axes] == with_known_roles.methods
    assert {axis.get_xlabel() for axis in axes[-1]} == {"removed (%)"}
    line = axes[1][1].get_lines()[1].get_ydata()
    rows = with_known_roles.table("role_survival").query("method == 'ablation'")
    assert list(line) == rows.query("role == 'syntactic'").sort_values("budget")["kept"].tolist()


def test_roles_alone_have_a_figure(role_run: Path, tmp_path: Path) -> None:
    folder = write_report(role_run, format="figures", out=tmp_path / "figures")
    assert {path.name for path in folder.iterdir()} == {"heads.pdf", "heads.svg", "heads.png"}

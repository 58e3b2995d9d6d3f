"""The formats of a report: HTML, Markdown, LaTeX, figures."""

"""``python -m headtool.schema``: print the page of the docs that describes every table."""

from headtool.schema.page import tables_page

print(tables_page(), end="")

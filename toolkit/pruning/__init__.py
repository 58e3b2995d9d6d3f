"""Make models smaller: remove heads, save what is left, load it again."""

"""headtool: compare ways of scoring and pruning attention heads."""

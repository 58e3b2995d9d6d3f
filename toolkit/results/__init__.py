"""Results of running a model, and the folders that keep them."""

"""Studies: many models, seeds and tasks, each compared in a run of its own."""

"""Removing heads from the modules of a model."""

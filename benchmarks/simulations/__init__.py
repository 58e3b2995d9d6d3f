"""Simulations behind docs/calibration.md; `benchmarks/calibration.py` runs them."""

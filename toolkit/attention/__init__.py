"""How heads are reached: found, gated, probed, watched, closed."""

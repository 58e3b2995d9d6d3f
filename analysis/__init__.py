"""Statistics: pure functions from arrays and frames to tables; no model is ever run here."""

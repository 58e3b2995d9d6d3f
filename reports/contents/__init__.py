"""What a run holds, as reports read it."""

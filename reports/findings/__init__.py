"""What a run shows, in sentences."""

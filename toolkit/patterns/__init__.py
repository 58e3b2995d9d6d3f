"""What heads do: roles counted on tokens and on parsed sentences."""

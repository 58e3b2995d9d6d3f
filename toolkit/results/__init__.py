"""What comes out of a model, and the folders it is kept in."""

"""Numbers and names as running text has them."""

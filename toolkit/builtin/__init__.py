"""The built-in models, their data, and the scripts that train them."""

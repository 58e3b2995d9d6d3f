"""Rendering of results; nothing is computed again here."""

"""Sections of the page."""

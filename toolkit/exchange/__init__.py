"""Scores made elsewhere: files of other people's tools, read and written."""

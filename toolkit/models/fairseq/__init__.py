"""Models of fairseq."""

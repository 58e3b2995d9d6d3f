"""The three primitives (evaluate, differentiate, observe), and decoding."""

"""Make models smaller: prune them, save what is left, load it again, time it."""

"""Units of work on several processes and machines, by Ray."""

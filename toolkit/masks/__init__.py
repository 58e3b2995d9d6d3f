"""Head masks: which heads are open, and in what order they close."""

"""What the commands do, as functions: methods, analysis and a model together."""

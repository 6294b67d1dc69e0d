"""The verbs of the program, on a cluster without operators."""

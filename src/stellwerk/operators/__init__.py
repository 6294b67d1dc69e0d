"""The four operators, strangers to each other and of the same inner shape."""

"""Tests on a real API server; a folder for each operator, and one for each layer below them."""

"""The engine: turns changes into calls of a reconciler, knows no kind by meaning."""

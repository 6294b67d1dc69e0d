"""The wire: speaks to an API server, knows no kind by name."""

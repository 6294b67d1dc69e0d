"""The one place that knows all four operators: from settings to a running manager."""

"""What is reported about a pass.

observers             Events and log lines: of a pass, of its writes, of the API server's warnings
metrics               metrics
flux_notifications    notifications of Flux that wake Components
"""

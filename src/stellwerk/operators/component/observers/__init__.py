"""What is reported about a pass.

observers             log lines and Events of the writes of a pass
events                Events of a status
metrics               metrics
flux_notifications    notifications of Flux that wake Components
api_warnings          warnings of the API server
"""

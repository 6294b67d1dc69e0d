"""What the renderer is asked for.

request                a request and its answer, as values       pure
values                 several sources of values as one          pure
chart_values           the default values of a chart             pure
capabilities           what a cluster serves, for templates      asks the API server
offline_capabilities   the same without a cluster                pure
"""

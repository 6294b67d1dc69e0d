"""The operators, strangers to each other and of the same inner shape.

What more than one of them needs, and no lower room has, lies beside their folders: rights (`grants`), the objects of
their sets (`owned`), what templates ask (`questions`), what people ask for (`requests`), and why a Deployment is not
ready (`workloads`).
"""

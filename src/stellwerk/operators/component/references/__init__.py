"""What a Component refers to.

references         Secrets and ConfigMaps that a spec names
referenced_data    their data
inputs             their data as values, computed outside the event loop
digests            digests of a Component, its references and its source    pure
"""

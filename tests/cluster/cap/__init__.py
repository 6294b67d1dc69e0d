"""The CAP Operator; a folder for each kind, for the servers, and for what crosses them."""

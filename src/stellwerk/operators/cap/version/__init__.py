"""CAPApplicationVersion: one released version and its workloads."""

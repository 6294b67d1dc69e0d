"""The CAP Operator in the Helm chart.

values      of its processes and of the operator as a whole, with the names and defaults of the original's chart
templates   objects that no other operator has
"""

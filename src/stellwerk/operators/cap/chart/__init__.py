"""The CAP Operator in the Helm chart: values with the names and defaults of the original's chart.

operator     of the operator as a whole; templates: its objects that no other operator has
controller   of the controllers
server       of the subscription server
webhook      of the webhooks
component    what the values of these have in common
"""

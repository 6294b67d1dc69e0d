"""CAPOperators: from the spec to the chart's values, and from there to objects.

chart       the chart that installs the CAP Operator, and the form of its values
observe     what the values are derived from: the cluster's domain, the ingress gateway, other CAPOperators
plan        the chart's values, and what the status becomes (pure)
resources   the objects of a rendering, as they are applied (pure)
installer   applies and deletes the objects of one CAPOperator
reconcile   the reconciler and its pass
"""

"""The dependencies between Components.

dependencies         is each dependency ready
dependency_graph     dependency cycles
ready_expressions    readiness by a CEL expression
"""

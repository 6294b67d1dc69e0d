"""Operators as processes that can be killed.

operator_process  an operator with its log, health and end
proxied_operator  one behind a fault proxy
fork_server       starts Python processes in a tenth of the time
"""

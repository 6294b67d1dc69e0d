"""Operators as processes that can be killed.

operator_process  an operator with its log, health and end
fork_server       starts Python processes in a tenth of the time
"""

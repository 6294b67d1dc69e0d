"""The local system, and the installation of operators; `verbs/local` declares the verbs.

up, down, install, run    one verb each
chart                 what the Helm chart renders for operators
system                the steps of a start, and the state of the local system
operators             the operators of the local system; operator_processes starts their processes
"""

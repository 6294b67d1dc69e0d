"""The local system, and the installation of operators; `verbs/local` declares the verbs.

up, down, run             one verb each
run_local             programs of the local system that no cluster may have
install, uninstall        the same for operators in a cluster
chart                 what the Helm chart renders for operators; obstacles: why a cluster cannot take it
system                the steps of a start, and the state of the local system
operators             the operators of the local system; operator_processes starts their processes
sample_files          the samples, and the clusters that they are about
"""

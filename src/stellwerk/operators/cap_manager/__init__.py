"""The CAP Operator Manager: installs the CAP Operator as a CAPOperator asks for, and keeps it that way.

operator      its OperatorSpec
controllers   what runs; watches: what else is watched, and when the CAPOperators are looked at again
api           the kind and every name that others rely on; settings: what an administrator sets
rights        what the manager may do; installation: what a cluster needs before it starts
reasons       the reasons of the condition Ready; errors: failures with their causes
capoperator   from a CAPOperator to the chart's values, and from there to objects
insight       what `why`, `tree`, `diff` and `explain` ask
"""

"""The module that a BtpOperator installs.

chart             the module that is wanted now; from a chart: values and rendering
release           the version and the files of the module
rehearsal         the module for a cluster in which no container runs
operand           the kinds of the operand: ServiceInstance, ServiceBinding
version_record    which versions have been applied, and what each left
"""

"""BTP Manager: installs, updates and safely removes the SAP BTP service operator.

operator            its OperatorSpec
controllers         what runs: controllers, caches and servers, added to a manager
installation        what a cluster needs before it starts: kinds, rights
watches             the caches, and which keys a change wakes
api                 the kind BtpOperator
settings            what an administrator sets; config_overrides: the ConfigMap that overrides flags
reasons             the conditions' reasons; help: texts about them, as Markdown; errors: failures as reason and message
rights              what the operator may do; metrics: its own metrics
btpoperator         the reconciler of BtpOperator
module              the module's chart, its version, and the files it is rendered from
credentials         the credentials of SAP BTP: reading, comparison, check
insight             what verbs of the command line ask
"""

"""The reconciler of BtpOperator.

reconcile         one pass; the only writer of the status
observe           what the caches show, as a snapshot
plan              the next step for a snapshot                     pure
resources         the objects to apply                             pure
provisioning      applies the module; diagnose finds why the operand is not ready
deprovisioning    deletes the users' objects and the module
probe             does the certificate of the token endpoint verify against the CA bundle
certificates      when the certificates of the operand's webhooks are renewed      pure; webhooks makes them
history           the record of applied versions
leading           which of several BtpOperators is the leading one
events            Events and log lines about a pass
"""

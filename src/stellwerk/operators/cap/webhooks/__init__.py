"""Admission webhooks: which writes of users are refused, and why.

judges         decide with what the caches show
rules          what is refused of each kind but CAPApplicationVersion
version        what is refused of a CAPApplicationVersion
server         serves them, with a certificate that replicas share
registration   how API servers learn of them
process        the program that `stellwerk run cap-webhooks` starts; spec, settings, rights, installation: its parts
"""

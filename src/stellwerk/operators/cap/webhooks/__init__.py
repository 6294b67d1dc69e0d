"""Admission webhooks: which writes of users are refused, and why.

judges         decide with what the caches show
rules          what is refused of each kind but CAPApplicationVersion
version        what is refused of a CAPApplicationVersion
former         what can be read of a stored object that cannot be read as a whole
registration   how API servers learn of them
process        the program that `stellwerk run cap-webhooks` starts, and the certificate that its replicas share; spec,
               settings, rights, installation: its parts
"""

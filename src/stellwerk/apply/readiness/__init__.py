"""Is an object ready? Pure.

kstatus                 the rules of kstatus
readiness               the readiness of a wanted object
deployment_diagnosis    why a Deployment is not ready
"""

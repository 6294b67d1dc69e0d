"""Pods of workloads, and the credentials that they read.

workload_pods  the pod templates of Deployments and Jobs
vcap           the credentials of services as workloads read them
credentials    binding Secrets, and the Secrets with credentials that are made of them
last_words     how the containers of a failed Job ended
"""

"""Fleet: what concerns all Kymas at once.

rollout   how many clusters get a new version of a module at a time
"""

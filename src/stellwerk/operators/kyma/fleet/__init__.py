"""Fleet: what concerns all Kymas at once.

figures   how many clusters have which version, and in which state
rollout   how many clusters get a new version of a module at a time
"""

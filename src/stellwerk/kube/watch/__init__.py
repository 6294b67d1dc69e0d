"""List and watch without an end.

watch          the loop around a list and its watches
watch_states   its states, and what each answer means for them (pure)
"""

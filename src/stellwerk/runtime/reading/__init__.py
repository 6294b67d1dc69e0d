"""What a pass may ask, and what a changed answer wakes.

view       the questions of a pass, and what it has written itself
questions  collections, indices, and from a change to those who asked
loads      values that need a request
known      what is known of an answer
live_sources  answers from requests, with the rights of a user
"""

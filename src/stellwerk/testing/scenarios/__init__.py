"""What tests of every operator share: how it runs, what it is given, and what must become true.

harness          an operator in the test's own process, and `settled`, the one way to wait for it
skipping_clock   the machine's clock, which a test may set forward
status_history   every state that objects of a kind have shown
writes           what an operator has written
crash_sweep      an operator that dies, or loses an answer, at every one of its writes
recorder         what a scenario writes and leaves; normalize: two ends made comparable
objects          what users do to objects, and what must become true of them
"""

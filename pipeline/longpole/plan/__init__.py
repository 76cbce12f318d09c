"""Closed forms before a run: what it would take, from a handful of numbers and no dump.

No data is read here, so there are no rows that SQL could work on: the one place whose arithmetic is Python. Each
formula names its source; counts and bytes are exact integers, times are seconds in floats, but for the queue of
buckets, whose times are integer nanoseconds as those of a dump are. A number that no formula can take is a
LongpoleError.
"""

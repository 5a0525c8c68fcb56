"""Rules: arguments, durations and laws as plain functions of numbers.

Nothing here knows about threads, clocks, TensorFlow or widgets.
"""

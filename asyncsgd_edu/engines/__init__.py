"""Engines: what makes a trace.

The only place with workers, locks and clocks. An engine never draws, prints or
touches a widget; it fills a version log that others read.
"""

"""Lessons: what a notebook asks, and what it says to an answer.

Only words and comparisons. Whatever is compared with comes from a trace or a
law, never from a number written down here.
"""

from asyncsgd_edu.lessons.questions import Verdict as Verdict
from asyncsgd_edu.lessons.questions import check as check
from asyncsgd_edu.lessons.questions import compare as compare

__all__ = ["Verdict", "check", "compare"]

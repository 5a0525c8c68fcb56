"""Plotly's renderers, loaded here before plotly does so itself, and without what it wants only the version of.

Whoever shows figures imports `renderers` from here, so that neither the first figure nor a Lab waits for nbformat.
"""

from asyncsgd_edu.view.stand_in import stand_in

with stand_in("nbformat"):
    from plotly.io import renderers

__all__ = ["renderers"]

"""What shows a trace: pictures, the live view and the dashboard.

Here, and only here, live plotly, ipywidgets and the thread that draws. Nothing
here may change a run or compute a number that is not in its trace, and nothing
here may load TensorFlow while it is imported.
"""

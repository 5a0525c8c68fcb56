"""Problems: what is trained, written in TensorFlow ops.

No threads, no clocks, no optimizers: a problem says where parameters start,
which data belongs to a batch number, what the loss is and how good a result is.
"""

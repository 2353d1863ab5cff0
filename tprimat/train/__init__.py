"""The training that TensorPrimat runs itself, in a process of its own: real architectures, random
weights, and tokens of known entropy; nothing is downloaded.
"""

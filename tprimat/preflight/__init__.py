"""What the devices of this machine sustain, measured before a benchmark: one process for each
device.
"""

"""Tables: GPUs, models, prices, published results. A row each."""

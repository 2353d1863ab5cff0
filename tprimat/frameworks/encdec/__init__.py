"""The encoder-decoder benchmark: model, data, loop."""

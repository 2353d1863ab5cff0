"""What the training loops that TensorPrimat brings share: recipe, tokens, processes, time limit."""

"""Reading of any text that prints its steps, by the form of its lines."""

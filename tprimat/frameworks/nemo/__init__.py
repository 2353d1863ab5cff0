"""NVIDIA NeMo: recipes, launch, submission, conversion."""

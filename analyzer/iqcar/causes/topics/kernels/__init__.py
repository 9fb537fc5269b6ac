"""Compiled numerical kernels of the topic learners."""

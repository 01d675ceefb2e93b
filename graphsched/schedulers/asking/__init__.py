"""Schedulers are asked: their options, a clock beside them, how far they are, and what they answer."""

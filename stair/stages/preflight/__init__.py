"""Checks of a model before it generates: its tokenizer, template, configuration and weights."""

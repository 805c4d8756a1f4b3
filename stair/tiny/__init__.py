"""The embedded `tiny` run: generated problems, and small backbones that are trained on them.

Everything here is real, only small: problems with exact answers, an ordinary byte-level tokenizer, Transformers' own
Qwen3 and Qwen3.5 classes, trained on a CPU in about a minute. Nothing else in the package imports this folder.
"""

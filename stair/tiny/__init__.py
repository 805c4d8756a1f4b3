"""The embedded runs: generated problems, and small backbones that are trained on them.

Everything here is real, only small: problems with exact answers, an ordinary byte-level tokenizer, Transformers' own
Qwen3 and Qwen3.5 classes, trained on a CPU in minutes. Only the command line and the rules' settings import this folder.
"""

"""Before a model generates anything: what its tokenizer, template and configuration really do."""

"""One file a table: which numbers it takes, and how it is laid out."""

"""Tables: their values, lines and columns. Tables of one kind share a file."""

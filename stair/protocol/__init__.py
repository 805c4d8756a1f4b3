"""Chains of turns and the runner that takes them through an engine. Knows engines by their interface only."""

"""Conversations: messages, their rendering to token ids, the spans within them, and the split at `</think>`."""

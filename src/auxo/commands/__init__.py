"""The commands of `auxo`, one module each, and what they share."""

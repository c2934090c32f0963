"""What Auxo decides with: pure functions and frozen values, with no knowledge of the world outside."""

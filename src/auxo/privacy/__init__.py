"""What a client keeps to itself: noise for all that leaves it, and what that costs."""

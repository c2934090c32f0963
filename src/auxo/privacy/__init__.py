"""What a client keeps to itself: noise for all that leaves it, what that costs, and a ledger of what is spent.

In it: the mechanisms, the accounting, the ledger, the client mod `LocalPrivacy`, and the plan of a budget.
"""

"""What the parties of a federation say to each other, and what a run says about itself.

In it: messages, events and their files, and the codec that takes frozen values to bytes.
"""

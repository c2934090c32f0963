"""What the parties of a federation say to each other, and what a run says about itself."""

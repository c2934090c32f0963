"""What pytest is not to look into."""

collect_ignore = ["unruly_app.py"]  # part of an app, which imports what only that has

"""Parts found by name, built in or from a file of the user's own.

In it: parts by name or import path, and their sections of a configuration.
"""

"""Engines: what lies between an algorithm's tasks and the clients' answers; the in-process one is the default.

In it: this process, worker processes on this machine, and a Ray cluster.
"""

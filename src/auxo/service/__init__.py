"""A live service: a coordinator and a process for each cohort, behind HTTP, which survive each other's deaths.

In it: the store that all of them commit to, the desks that clients come to, supervision, and the client's half.
"""

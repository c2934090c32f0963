"""Attackers to simulate: clients that send, claim or judge what is not so, each kind as a client mod.

In it: updates that harm (wrong labels, flipped signs, scaled, ALIE, inner products, noise, mimicry, NaN), claims that
are forged (rewards, cluster indices, a cohort for every visit, a name for every visit), and judges that lie.
"""

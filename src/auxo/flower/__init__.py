"""Auxo beside Flower: parts that need its packages, which the extra ``auxo[flower]`` brings."""

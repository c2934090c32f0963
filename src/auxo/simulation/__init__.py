"""A federation in virtual time: devices, networks, availability and the clock they share."""

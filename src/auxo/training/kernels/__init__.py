"""Hand-written steps for many participants at once; README.md says what they bring and when they are used."""

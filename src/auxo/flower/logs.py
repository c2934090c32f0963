"""Where both halves log: below Flower's own logger, so that its level and its handlers are theirs, too."""

import logging

LOG = logging.getLogger("flwr").getChild("auxo")

"""Where commands say how their work goes; the work goes on when nobody reads that any more."""

import os
import sys

from rich.console import Console


class MessageConsole(Console):
    """A console on stderr; once its pipe is closed (``auxo run 2>&1 | head``) it is quiet, and nothing ends by that."""

    def __init__(self) -> None:
        super().__init__(stderr=True)

    def on_broken_pipe(self) -> None:
        """Say nothing from now on: neither here nor in what else writes to stderr."""
        self.quiet = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stderr.fileno())
        os.close(nowhere)

"""What a process that serves HTTP takes in at most: of one message, of one sender, and of all of them together."""

from dataclasses import dataclass, replace

from auxo.core.settings import NonNegativeFloat, PositiveFloat, PositiveInt, checked, setting


@dataclass(frozen=True)
@checked
class HttpLimits:
    """Bounds of a process that serves HTTP; what is beyond them is refused before it is read. All are our choice."""

    message_bytes: PositiveInt = setting(256 * 1024, "Of a message without an update; most of it are tokens.")
    answer_bytes: PositiveInt = setting(1024**3, "Of a whole answer with its update.")
    piece_bytes: PositiveInt = setting(8 * 1024**2, "Of one piece of an answer.")
    held_bytes: PositiveInt = setting(256 * 1024**2, "Of all messages that are being read at a time.")
    head_bytes: PositiveInt = setting(16 * 1024, "Of a request's line and headers.")
    head_s: PositiveFloat = setting(20.0, "Seconds in which a request's line and headers have to arrive.")
    body_s: PositiveFloat = setting(60.0, "Seconds in which a message, or a piece of an answer, has to arrive.")
    download_s: PositiveFloat = setting(600.0, "Seconds in which a model has to be fetched.")
    kept_s: PositiveFloat = setting(120.0, "Seconds for which a connection without a request is kept.")
    connections: PositiveInt = setting(16_000, "Connections that are open at a time.")
    check_ins: PositiveInt = setting(12_000, "Check-ins that wait for their answer at a time.")
    gather_s: NonNegativeFloat = setting(0.005, "Seconds for which check-ins are gathered, to be answered together.")
    uploads: PositiveInt = setting(1_000, "Answers of which a part has arrived, at a time.")
    uploads_bytes: PositiveInt = setting(8 * 1024**3, "Of all of these parts, which are on the disk.")
    upload_s: PositiveFloat = setting(300.0, "Seconds for which a part of an answer waits for the next.")
    again_s: PositiveFloat = setting(5.0, "Seconds after which those who find no room come again, on average.")

    def for_model(self, parameters: int) -> "HttpLimits":
        """Return these, with room for answers of a model and for no larger ones."""
        return replace(self, answer_bytes=4 * parameters + 4 * self.message_bytes)

"""When trying again cannot help: a run that has not trained a single round, and cannot, ends with an error."""

from collections import Counter
from collections.abc import Sequence

from flwr.common.constant import ErrorCode

from auxo.core.validation import why
from auxo.flower.legacy import why_old
from auxo.flower.post import Exchange
from auxo.runtime.server import Rejection

OF_THE_APP = (
    ErrorCode.LOAD_CLIENT_APP_EXCEPTION,
    ErrorCode.CLIENT_APP_RAISED_EXCEPTION,
    ErrorCode.MOD_FAILED_PRECONDITION,
    ErrorCode.INVALID_FAB,
    ErrorCode.CLIENT_APP_CRASHED,
)
"""What comes of the app itself, and would again; a node that is away may come back."""


class RunFailed(RuntimeError):  # noqa: N818 - it says what is the case
    """A run in which nothing was trained; the message says why."""


def why_hopeless(exchange: Exchange, rejections: Sequence[Rejection], weight: str) -> str | None:
    """Return why a round that came to nothing would do so again; None: it need not.

    Args:
        exchange: the round's messages, and what has come back.
        rejections: of the server, of results that came.
        weight: the metric by which the strategy weighs replies.
    """
    errors = [reply.message.error for reply in exchange.replies.values() if reply.message.has_error()]
    raised = Counter(error.reason or "one without a reason" for error in errors if error.code in OF_THE_APP)
    refused = {one.client: one.reason for one in rejections}
    if not exchange.nodes or raised.total() + len(refused) < len(exchange.nodes):
        return None
    told = []
    if raised:
        ((most, _),) = raised.most_common(1)
        told.append(
            f"the ClientApp of {raised.total()} nodes raised an error, most often {why_old(most)}; nodes' logs have "
            "its traceback"
        )
    if refused:
        told.append(
            f"{len(refused)} replies were refused, {why(list(refused.values()))}; each needs one ArrayRecord like the "
            f"model's, and one MetricRecord of finite numbers with {weight!r} in it, by which the strategy weighs"
        )
    return (
        f"all {len(exchange.nodes)} nodes of the first round failed: {'. '.join(told)}. Mend the app, and start again"
    )

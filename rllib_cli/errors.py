"""The exception that means 'the user can fix this': exit status 2, one message, no traceback."""


class UserError(Exception):
    """A mistake in what the user gave; the message names it, what is allowed and what to do."""


def exception_summary(error: BaseException, limit: int = 400) -> str:
    """Returns an exception as one line of at most ``limit`` characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= limit else text[: limit - 3] + "..."

"""What is taken out of text that others wrote: secrets are removed, names replaced.

A log has a secret if somebody passes it on a command line, or prints the environment or a
configuration. It names machines, users, directories and addresses all the time; what leaves a
machine has pseudonyms for them.

Logs are parsed as they are, so that no figure is lost, and what is kept of them is redacted.
"""

from tprimat.redaction.forms import REMOVED
from tprimat.redaction.names import (
    INCLUDE_HOST,
    PSEUDONYM,
    Names,
    names_stay,
    relative,
    relative_words,
    shown_paths,
)
from tprimat.redaction.secrets import is_secret, redacted, redacted_start

__all__ = [
    "INCLUDE_HOST",
    "PSEUDONYM",
    "REMOVED",
    "Names",
    "is_secret",
    "names_stay",
    "redacted",
    "redacted_start",
    "relative",
    "relative_words",
    "shown_paths",
]

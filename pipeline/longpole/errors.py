"""The errors a user can cause or cure: the fact first, then the way out, never a traceback."""


class LongpoleError(Exception):
    """A problem with the input, the store or the request.

    Args:
        fact: What is wrong, with the file and the value.
        cure: What to do about it; printed after a blank line.
    """

    exit_code = 1

    def __init__(self, fact: str, cure: str = "") -> None:
        super().__init__(fact if not cure else f"{fact}\n\n{cure}")
        self.fact = fact
        self.cure = cure

    def __reduce__(self) -> tuple[type["LongpoleError"], tuple[str, str]]:
        # Dask carries errors between processes by pickle; the default would pass the joined text as `fact`.
        return (type(self), (self.fact, self.cure))


class UsageError(LongpoleError):
    """The command line itself is wrong."""

    exit_code = 2


class GateError(LongpoleError):
    """A check or a gate failed."""

    exit_code = 3


class DumpError(LongpoleError):
    """A file is not a dump that can be read; `fact` says what it is instead."""


class NoDumpsError(DumpError):
    """A folder holds no file that could be a dump."""


class StoreError(LongpoleError):
    """The store cannot be used as it is: locked, newer, damaged or absent."""


class OldRunError(StoreError):
    """An older version wrote the run: to be made again of its dumps."""

"""Defines the simulator's exceptions. Each message names the mistake, the given value and the needed value."""


class Error(Exception):
    """The base of the simulator's exceptions."""


class ArgumentError(Error, ValueError):
    """An argument cannot be used.

    Parameters
    ----------
    argument : str
        The argument's name, as the caller wrote it.
    got, needs : str
        The value that came, and a description of the values that are accepted.
    """

    def __init__(self, argument: str, got: str, needs: str) -> None:
        super().__init__(argument, got, needs)  # what it is made of, so that it reaches another process
        self.argument, self.got, self.needs = argument, got, needs

    def __str__(self) -> str:
        return f"{self.argument}: got {self.got}, needs {self.needs}"


class CompileError(Error):
    """A CUDA source does not compile; the message is NVRTC's log, with the file's lines."""


class UnsupportedInstruction(Error):  # noqa: N818 - a limit of the simulator, not an error of the kernel
    """The simulator does not know a PTX instruction and refuses to guess what it does."""


class SimulationFault(Error):  # noqa: N818 - the field's word
    """A simulated kernel did something that compute-sanitizer would report, or that PTX leaves undefined.

    Attributes
    ----------
    kind : str
        "out of bounds", "misaligned", "uninitialised", "race", "in flight", "barrier", "deadlock", "proxy",
        "divergence", "gone", "endless", "read-only", "division by zero", "shuffle", "assertion", "trap" or "stack
        overflow".
    kernel : str
        The kernel's name.
    detail : str
        What the thread did.
    place : tuple of int, optional
        Line, block and thread, if the fault has a place.
    names : tuple of str, optional
        The block and the thread as the message names them: by their indices along x, y and z where those are used.
    line : int
        Line of the kernel's source file.
    block, thread : int
        Linear block index in the grid and linear thread index in the block of the first offender.
    trace, events : list
        The accesses and events of the traced blocks until then, as in a `Run`.
    """

    def __init__(
        self,
        kind: str,
        kernel: str,
        detail: str,
        place: tuple[int, int, int] | None = None,
        names: tuple[str, str] | None = None,
    ) -> None:
        where = ", line {}, block {}, thread {}".format(place[0], *(names or place[1:])) if place else ""
        super().__init__(f"{kind}: {kernel}{where}: {detail}")
        self.kind, self.kernel, self.detail = kind, kernel, detail
        self.line, self.block, self.thread = place or (None, None, None)
        self.trace, self.events = [], []

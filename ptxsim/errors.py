"""The exceptions of the simulator. Each message names what was wrong, what came and what is needed."""


class Error(Exception):
    """The base of every exception that is raised on purpose."""


class ArgumentError(Error, ValueError):
    """An argument cannot be used.

    Parameters
    ----------
    argument : str
        The argument's name, as the caller wrote it.
    got, needs : str
        What came, and what is needed instead.
    """

    def __init__(self, argument: str, got: str, needs: str) -> None:
        super().__init__(f"{argument}: got {got}, needs {needs}")
        self.argument, self.got, self.needs = argument, got, needs


class CompileError(Error):
    """A CUDA source does not compile; the message is NVRTC's log, with the file's lines."""


class UnsupportedInstruction(Error):  # noqa: N818 - not an error of the kernel's, but a limit of ours
    """The simulator does not know a PTX instruction and refuses to guess what it does."""


class SimulationFault(Error):  # noqa: N818 - the field's word
    """A simulated kernel did what compute-sanitizer would report.

    Attributes
    ----------
    kind : str
        "out of bounds", "misaligned", "uninitialised", "race", "in flight", "barrier", "deadlock", "proxy",
        "divergence", "gone", "division by zero" or "left behind".
    kernel : str
        The kernel's name.
    detail : str
        What it did.
    place : tuple of int, optional
        The next three, where there is one.
    line : int
        Line of the kernel's source file.
    block, thread : int
        Linear block index in the grid and linear thread index in the block of the first offender.
    trace, events : list
        What the traced blocks had done until then, as of a `Run`.
    """

    def __init__(self, kind: str, kernel: str, detail: str, place: tuple[int, int, int] | None = None) -> None:
        where = ", line {}, block {}, thread {}".format(*place) if place else ""
        super().__init__(f"{kind}: {kernel}{where}: {detail}")
        self.kind, self.kernel, self.detail = kind, kernel, detail
        self.line, self.block, self.thread = place or (None, None, None)
        self.trace, self.events = [], []

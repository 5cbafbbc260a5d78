"""Random programs, each written twice: as CUDA C++, and as Python for one thread at a time.

Every expression is the same text in both languages; Python evaluates it with `U32`. Statements are assignments,
branches and loops that differ from thread to thread, early returns, and, where all threads come by, exchanges of a
value through shared memory with barriers round them.
"""

from __future__ import annotations

import operator
import random

NAMES = ("x", "y", "z")


class U32(int):
    """C's unsigned: arithmetic modulo 2**32."""

    def __new__(cls, number: int) -> U32:
        return super().__new__(cls, number & 0xFFFFFFFF)

    def __invert__(self) -> U32:
        return U32(-1 - int(self))


def _wrapping(function):
    return lambda a, b: U32(function(int(a), int(b)))


for _name, _function in {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": operator.floordiv,
    "mod": operator.mod,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "lshift": operator.lshift,
    "rshift": operator.rshift,
}.items():
    setattr(U32, f"__{_name}__", _wrapping(_function))


class Program:
    """One random program: its text in C++ and in Python.

    Attributes
    ----------
    cuda : str
        Statements for the body of a kernel of `threads` threads per block.
    python : str
        A generator ``thread(t, block, a)`` that yields what the thread puts into shared memory, is sent the list of
        what its block has put there, and returns what it stores.
    """

    def __init__(self, seed: int, threads: int) -> None:
        self.random, self.threads = random.Random(seed), threads
        self.depth, self.loops, self.returns = 1, 0, False
        self.cuda_lines = [f"__shared__ unsigned s[{threads}];", f"const unsigned me = blockIdx.x * {threads} + t;"]
        self.python_lines = ["def thread(t, block, a):", f"    me = block * {threads} + t"]
        for i, name in enumerate(NAMES):
            self.both(f"unsigned {name} = a[(me + {i}) % 64];", f"{name} = a[(me + {i}) % 64]")
        for _ in range(self.random.randint(1, 2)):
            self.statements(self.random.randint(2, 4))
            if self.random.random() < 0.5:
                self.exchange()
            else:
                self.shared_loop()
        self.returns = True
        self.statements(4)
        self.leave("x ^ (y * 3) ^ z")
        self.cuda, self.python = "\n".join(self.cuda_lines), "\n".join(self.python_lines)

    def both(self, cuda: str, python: str) -> None:
        self.cuda_lines.append("    " * self.depth + cuda)
        self.python_lines.append("    " * self.depth + python)

    def statements(self, count: int) -> None:
        for _ in range(count):
            kinds = [self.assign, self.branch, self.loop] if self.depth < 4 else [self.assign]
            self.random.choice(kinds)()

    def assign(self) -> None:
        name, right = self.random.choice(NAMES), self.expression(3)
        self.both(f"{name} = {right};", f"{name} = {right}")

    def branch(self) -> None:
        condition = self.condition()
        self.both(f"if ({condition}) {{", f"if {condition}:")
        self.inside(self.random.randint(1, 3))
        if self.returns and self.random.random() < 0.3:
            self.depth += 1
            self.leave(self.expression(2))
            self.depth -= 1
        if self.random.random() < 0.5:
            self.both("} else {", "else:")
            self.inside(self.random.randint(1, 2))
        self.cuda_lines.append("}")

    def loop(self) -> None:
        """Write a loop whose number of turns differs between threads, some of which leave it or skip a part."""
        self.loops += 1
        turns, i = f"n{self.loops}", f"i{self.loops}"
        limit = f"({self.expression(2)}) & {self.random.choice([1, 3, 7])}"
        self.both(f"const unsigned {turns} = {limit};", f"{turns} = {limit}")
        self.both(f"for (unsigned {i} = 0; {i} < {turns}; ++{i}) {{", f"for {i} in map(U32, range({turns})):")
        self.depth += 1
        self.both(f"x = x + {i};", f"x = x + {i}")
        self.statements(1)
        for word in ("break", "continue"):
            if self.random.random() < 0.4:
                condition = self.condition()
                self.both(f"if ({condition}) {word};", f"if {condition}: {word}")
                self.statements(1)
        self.depth -= 1
        self.cuda_lines.append("}")

    def shared_loop(self) -> None:
        """Write a loop that all threads of a block go through alike, with barriers in it."""
        self.loops += 1
        i, turns = f"i{self.loops}", self.random.randint(1, 3)
        self.both(
            f"for (unsigned {i} = 0; {i} < {turns} + blockIdx.x; ++{i}) {{",
            f"for {i} in map(U32, range({turns} + block)):",
        )
        self.depth += 1
        self.statements(1)
        self.exchange()
        self.depth -= 1
        self.cuda_lines.append("}")

    def exchange(self) -> None:
        name, right = self.random.choice(NAMES), self.expression(2)
        other = f"(t * {self.random.randint(1, 9)} + {self.random.randint(0, 40)}) % {self.threads}"
        self.both(
            f"s[t] = {right}; __syncthreads(); {name} = s[{other}]; __syncthreads();",
            f"{name} = (yield {right})[{other}]",
        )

    def leave(self, result: str) -> None:
        self.both(f"{{ c[me] = {result}; return; }}", f"return {result}")

    def inside(self, count: int) -> None:
        self.depth += 1
        self.statements(count)
        self.depth -= 1

    def condition(self) -> str:
        comparison = self.random.choice(["<", "<=", ">", ">=", "==", "!="])
        return f"({self.expression(1)} & 31) {comparison} ({self.expression(1)} & 15)"

    def expression(self, depth: int) -> str:
        if depth == 0 or self.random.random() < 0.15:
            return self.random.choice([*NAMES, *NAMES, "t", "me"])
        left, right = self.expression(depth - 1), self.expression(depth - 1)
        return self.random.choice(
            [
                f"({left} + {right})",
                f"({left} - {right})",
                f"({left} * {right})",
                f"({left} ^ {right})",
                f"({left} & {right})",
                f"({left} | ~{right})",
                f"({left} << ({right} & 31))",
                f"({left} >> ({right} & 31))",
                f"({left} / ({right} | 1))",
                f"({left} % ({right} | 1))",
                f"({left} + {self.random.randint(0, 99)})",
            ]
        )

    def expected(self, a: list[int], blocks: int) -> list[int]:
        """Return what every thread stores, one block after the other."""
        scope: dict = {"U32": U32}
        exec(self.python, scope)
        stored: list[int] = []
        for block in range(blocks):
            threads = [scope["thread"](U32(t), U32(block), [U32(word) for word in a]) for t in range(self.threads)]
            put, results = [None] * self.threads, {}
            while len(results) < self.threads:
                given = None if put[0] is None else list(put)
                for t, thread in enumerate(threads):
                    try:
                        put[t] = thread.send(given)
                    except StopIteration as end:
                        results[t] = int(end.value)
            stored += [results[t] for t in range(self.threads)]
        return stored

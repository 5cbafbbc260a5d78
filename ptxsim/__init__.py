"""The simulator: runs PTX on NumPy arrays, with no GPU. It knows programs and arguments, and no `Kernel`.

`ptx` reads the PTX, `instructions` and `fma` know its arithmetic, `memory` holds the data and checks every access,
`copies` are the asynchronous ones, `exchange` is what lanes and blocks tell each other, `clusters` is where blocks meet
and `far` how they use each other's shared memory, `tensor` is the tensor cores, `counters` counts as the hardware does,
`batch` is many blocks' threads on their way through the program, `decode` makes of each instruction what it does to
them, and `machine` runs a grid of them.
"""

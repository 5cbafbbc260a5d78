// Not a rung: keeps the GPU busy for a while, so that the host can queue launches behind it.
__global__ void spin(long long cycles)
{
    const long long begin = clock64();
    while (clock64() - begin < cycles) {}
}

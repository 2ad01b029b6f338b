extern "C" __global__ void median5(const unsigned char* raw, unsigned char* out, int height, int width, long long padded)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y, camera = blockIdx.z;
    if (x >= width) return;
    raw += camera * padded; out += camera * padded;
    int count = 0;
    for (int dy = -2; dy <= 2; dy++) for (int dx = -2; dx <= 2; dx++)
        count += raw[(long long)min(max(y + dy, 0), height - 1) * width + min(max(x + dx, 0), width - 1)] == 255;
    out[(long long)y * width + x] = count > 12 ? 255 : 0;
}

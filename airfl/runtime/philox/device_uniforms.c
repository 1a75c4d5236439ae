/* Uniform numbers of many devices by numpy's generator, Philox 4x64-10 (Salmon et al., Parallel random numbers: as easy
   as 1, 2, 3, 2011): those of numpy.random.Generator(Philox(key, counter=[0, 0, 0, device + 1])).random, bit for bit. */
#include <stdint.h>

static inline uint64_t product(uint64_t a, uint64_t b, uint64_t *high)
{
    unsigned __int128 both = (unsigned __int128)a * b;
    *high = (uint64_t)(both >> 64);
    return (uint64_t)both;
}

/* out: [rows, count]; a row for each device. */
void airfl_device_uniforms(const uint64_t key[2], const int64_t *devices, int64_t rows, int64_t count, double *out)
{
    for (int64_t row = 0; row < rows; row++) {
        /* numpy increments the counter before it draws. */
        for (uint64_t block = 1; 4 * (int64_t)(block - 1) < count; block++) {
            uint64_t words[4] = {block, 0, 0, (uint64_t)devices[row] + 1}, key0 = key[0], key1 = key[1];
            for (int round = 0; round < 10; round++) {
                uint64_t high0, high1, low0 = product(0xD2E7470EE14C6C93u, words[0], &high0),
                                       low1 = product(0xCA5A826395121157u, words[2], &high1);
                words[0] = high1 ^ words[1] ^ key0;
                words[1] = low1;
                words[2] = high0 ^ words[3] ^ key1;
                words[3] = low0;
                key0 += 0x9E3779B97F4A7C15u;
                key1 += 0xBB67AE8584CAA73Bu;
            }
            int64_t left = count - 4 * (int64_t)(block - 1);
            for (int64_t i = 0; i < 4 && i < left; i++)
                *out++ = (double)(words[i] >> 11) * 0x1p-53;
        }
    }
}

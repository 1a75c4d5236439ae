/* Amplitudes of codewords, and sums of random symbols times amplitudes, for non-coherent aggregation.

   The numbers are those of channels/codewords.py and channels/energy.py by torch, bit for bit, so this file must be
   compiled without contraction into fused operations: the one that torch fuses is written as such. */
#include <math.h>
#include <stdint.h>

/* amplitudes[i, j] = sqrt(max(offsets[i, j] + slopes[j] (factors[i] values[i]), 0)) for each device i and resource j.
   values: [devices, entries], with `stride` numbers from one device to the next; amplitudes: [devices, resources,
   entries]. */
void airfl_amplitudes(const float *values, int64_t stride, const float *factors, const float *offsets,
                      const float *slopes, int64_t devices, int64_t resources, int64_t first, int64_t last,
                      int64_t entries, float *amplitudes)
{
    for (int64_t i = 0; i < devices; i++)
        for (int64_t j = 0; j < resources; j++) {
            const float *from = values + i * stride;
            float *into = amplitudes + (i * resources + j) * entries;
            float factor = factors[i], slope = slopes[j], offset = offsets[i * resources + j];
            for (int64_t e = first; e < last; e++) {
                float energy = offset + slope * (factor * from[e]);
                into[e] = sqrtf(energy < 0.0f ? 0.0f : energy);
            }
        }
}

/* sum + x y, rounded as by torch's addcmul: once where the processor can. */
static inline float plus_product(float sum, float x, float y)
{
#ifdef __FMA__
    return __builtin_fmaf(x, y, sum);
#else
    return sum + x * y;
#endif
}

#define SYMBOLS 256
#define BLOCK 1024 /* slots at a time, whose sums stay in the first cache over all devices */

/* sums += amplitude * symbol on the slots `first` to last - 1, one device after another. A random byte selects the symbol
   from the device's own table; it stands for all resources of its slot, or each has its own (`rows` bytes a slot).
   reals, imaginaries: [devices, SYMBOLS]; bytes: [devices, rows, slots]; amplitudes: [devices, resources, slots]; sums:
   [2 (real, imaginary), resources, slots]. */
void airfl_add_symbols(const float *reals, const float *imaginaries, const uint8_t *bytes, int64_t rows,
                       const float *amplitudes, int64_t devices, int64_t resources, int64_t first, int64_t last,
                       int64_t slots, float *sums)
{
    float real[BLOCK], imaginary[BLOCK];
    for (int64_t begin = first; begin < last; begin += BLOCK) {
        int64_t number = last - begin < BLOCK ? last - begin : BLOCK;
        for (int64_t i = 0; i < devices; i++)
            for (int64_t j = 0; j < resources; j++) {
                const float *amplitude = amplitudes + (i * resources + j) * slots + begin;
                float *sum = sums + j * slots + begin, *other = sum + resources * slots;
                if (j < rows) {
                    const uint8_t *own = bytes + (i * rows + j) * slots + begin;
                    for (int64_t s = 0; s < number; s++) {
                        real[s] = reals[i * SYMBOLS + own[s]];
                        imaginary[s] = imaginaries[i * SYMBOLS + own[s]];
                    }
                }
                for (int64_t s = 0; s < number; s++) {
                    sum[s] = plus_product(sum[s], real[s], amplitude[s]);
                    other[s] = plus_product(other[s], imaginary[s], amplitude[s]);
                }
            }
    }
}

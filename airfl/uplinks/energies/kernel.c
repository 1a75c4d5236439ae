/* Amplitudes of codewords, and sums of random symbols times amplitudes, for non-coherent aggregation.

   The numbers are those of channels/codewords.py and channels/energy.py by torch, bit for bit, so this file must be
   compiled without contraction into fused operations: the one that torch fuses is written as such. */
#include <math.h>
#include <stdint.h>
#include <string.h>

/* amplitudes[i, j] = sqrt(max(offsets[i, j] + slopes[j] (factors[i] values[i]), 0)) for each device i and resource j, and
   squares[i, j] their squares.
   values: [devices, entries], with `stride` numbers from one device to the next; amplitudes: [devices, resources,
   entries], as squares. */
void airfl_amplitudes(const float *values, int64_t stride, const float *factors, const float *offsets,
                      const float *slopes, int64_t devices, int64_t resources, int64_t first, int64_t last,
                      int64_t entries, float *amplitudes, float *squares)
{
    for (int64_t i = 0; i < devices; i++)
        for (int64_t j = 0; j < resources; j++) {
            const float *from = values + i * stride;
            float *into = amplitudes + (i * resources + j) * entries, *square = squares + (i * resources + j) * entries;
            float factor = factors[i], slope = slopes[j], offset = offsets[i * resources + j];
            for (int64_t e = first; e < last; e++) {
                float energy = offset + slope * (factor * from[e]);
                float amplitude = sqrtf(energy < 0.0f ? 0.0f : energy);
                into[e] = amplitude;
                square[e] = amplitude * amplitude;
            }
        }
}

/* amplitudes[i, j] = roots[i] where factors[i] values[i] is nearer than halves[i] to middles[i, j], else 0, and
   active[i] += the number of those. Shapes as above; middles: [devices, resources]. */
void airfl_digit_amplitudes(const float *values, int64_t stride, const float *factors, const float *middles,
                            const float *halves, const float *roots, int64_t devices, int64_t resources, int64_t first,
                            int64_t last, int64_t entries, float *amplitudes, int64_t *active)
{
    for (int64_t i = 0; i < devices; i++)
        for (int64_t j = 0; j < resources; j++) {
            const float *from = values + i * stride;
            float *into = amplitudes + (i * resources + j) * entries;
            float factor = factors[i], middle = middles[i * resources + j], half = halves[i], root = roots[i];
            for (int64_t begin = first; begin < last; begin += INT32_MAX) {
                int64_t end = last - begin < INT32_MAX ? last : begin + INT32_MAX;
                int32_t number = 0; /* short numbers, as many as a vector has floats */
                for (int64_t e = begin; e < end; e++) {
                    int32_t is = fabsf(factor * from[e] - middle) < half;
                    into[e] = is ? root : 0.0f;
                    number += is;
                }
                active[i] += number;
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

/* Whether a table has four symbols, repeated. */
static inline int has_four(const float *table)
{
    return !memcmp(table, table + 4, (SYMBOLS - 4) * sizeof *table);
}

/* Two bits of a byte select one of four symbols: without an access to memory, so that a compiler makes vectors of it. */
static inline void look_up_of_four(const float *table, const uint8_t *bytes, int64_t number, float *symbols)
{
    uint32_t four[4];
    memcpy(four, table, sizeof four);
    uint32_t step = four[0] ^ four[1], rise = four[0] ^ four[2], other = step ^ four[2] ^ four[3];
    for (int64_t s = 0; s < number; s++) {
        uint32_t odd = -(uint32_t)(bytes[s] & 1), high = -(uint32_t)(bytes[s] >> 1 & 1);
        uint32_t bits = four[0] ^ (step & odd) ^ ((rise ^ (other & odd)) & high);
        memcpy(symbols + s, &bits, sizeof bits);
    }
}

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
        for (int64_t i = 0; i < devices; i++) {
            int four = has_four(reals + i * SYMBOLS) && has_four(imaginaries + i * SYMBOLS);
            for (int64_t j = 0; j < resources; j++) {
                const float *amplitude = amplitudes + (i * resources + j) * slots + begin;
                float *sum = sums + j * slots + begin, *other = sum + resources * slots;
                if (j < rows) {
                    const uint8_t *own = bytes + (i * rows + j) * slots + begin;
                    if (four) {
                        look_up_of_four(reals + i * SYMBOLS, own, number, real);
                        look_up_of_four(imaginaries + i * SYMBOLS, own, number, imaginary);
                    } else
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
}

/* Inner loops of digital aggregation over the air: digits of numbers, nearest words of a codebook, seeds of k-means, and
   steps of approximate message passing.

   Digits are those of airfl/uplinks/stages/balanced_digits.py by torch, bit for bit. Sums are in an order of their own,
   so that the rest differs from torch by rounding. */
#include <math.h>
#include <stdint.h>
#include <string.h>

/* The digits, from the smallest place on, of the nearest whole numbers to factors[i] values[i], cut to +-middle. base is
   odd. values: [devices, entries], with `stride` numbers from one device to the next; sent: [devices, digits, entries]. */
void airfl_digits(const float *values, int64_t stride, const float *factors, float base, int64_t digits, float middle,
                  int64_t devices, int64_t first, int64_t last, int64_t entries, float *sent)
{
    for (int64_t i = 0; i < devices; i++) {
        const float *from = values + i * stride;
        float *lowest = sent + i * digits * entries, factor = factors[i];
        if (digits == 1) {
            for (int64_t e = first; e < last; e++) {
                float left = rintf(factor * from[e]);
                lowest[e] = left < -middle ? -middle : left > middle ? middle : left;
            }
            continue;
        }
        float *highest = lowest + (digits - 1) * entries;
        for (int64_t e = first; e < last; e++) {
            float left = rintf(factor * from[e]);
            left = left < -middle ? -middle : left > middle ? middle : left;
            float higher = rintf(left / base);
            lowest[e] = left - base * higher;
            highest[e] = higher;
        }
        for (int64_t place = 1; place < digits - 1; place++) {
            float *digit = lowest + place * entries;
            for (int64_t e = first; e < last; e++) {
                float higher = rintf(highest[e] / base);
                digit[e] = highest[e] - base * higher;
                highest[e] = higher;
            }
        }
    }
}

#define LANES 16 /* blocks at a time */
typedef float Lanes __attribute__((vector_size(4 * LANES), aligned(4)));
typedef int32_t Marks __attribute__((vector_size(4 * LANES), aligned(4)));

static inline void keep_better(Lanes score, int32_t word, Lanes *best, Marks *found)
{
    Marks better = score > *best;
    *best = (Lanes)(((Marks)score & better) | ((Marks)*best & ~better));
    *found = ((word + (Marks){0}) & better) | (*found & ~better);
}

/* found[i, b] = the word c with the largest b'c - |c|^2/2, the first of equals, for each block b of `length` entries of
   factors[i] values[i], whose last block is filled up with zeros. values: [rows, entries], with `stride` numbers from
   one row to the next; words: [count, length]; offsets: -|c|^2/2, [count]; scratch: [length, LANES]; found: [rows,
   blocks], of which the rows `first` to last - 1 are computed. */
void airfl_nearest_words(const float *values, int64_t stride, const float *factors, int64_t first, int64_t last,
                         int64_t entries, int64_t length, const float *words, const float *offsets, int64_t count,
                         float *scratch, float *found)
{
    int64_t blocks = (entries + length - 1) / length;
    for (int64_t i = first; i < last; i++)
        for (int64_t begin = 0; begin < blocks; begin += LANES) {
            const float *from = values + i * stride + begin * length;
            int64_t number = blocks - begin < LANES ? blocks - begin : LANES;
            int64_t left = entries - begin * length, whole = left / length < number ? left / length : number;
            memset(scratch, 0, length * sizeof(Lanes));
            for (int64_t b = 0; b < whole; b++)
                for (int64_t k = 0; k < length; k++)
                    scratch[k * LANES + b] = factors[i] * from[b * length + k];
            if (whole < number)
                for (int64_t k = 0; whole * length + k < left; k++)
                    scratch[k * LANES + whole] = factors[i] * from[whole * length + k];
            const Lanes *x = (const Lanes *)scratch;
            Lanes best = (Lanes){0} - INFINITY;
            Marks nearest = {0};
            int64_t q = 0;
            for (; q + 4 <= count; q += 4) {
                const float *w = words + q * length;
                Lanes a = (Lanes){0} + offsets[q], b = (Lanes){0} + offsets[q + 1], c = (Lanes){0} + offsets[q + 2],
                      d = (Lanes){0} + offsets[q + 3];
                for (int64_t k = 0; k < length; k++) {
                    a += w[k] * x[k];
                    b += w[length + k] * x[k];
                    c += w[2 * length + k] * x[k];
                    d += w[3 * length + k] * x[k];
                }
                keep_better(a, (int32_t)q, &best, &nearest);
                keep_better(b, (int32_t)q + 1, &best, &nearest);
                keep_better(c, (int32_t)q + 2, &best, &nearest);
                keep_better(d, (int32_t)q + 3, &best, &nearest);
            }
            for (; q < count; q++) {
                Lanes a = (Lanes){0} + offsets[q];
                for (int64_t k = 0; k < length; k++)
                    a += words[q * length + k] * x[k];
                keep_better(a, (int32_t)q, &best, &nearest);
            }
            for (int64_t b = 0; b < number; b++)
                found[i * blocks + begin + b] = (float)nearest[b];
        }
}

/* Seeds of k-means: chosen[w] is a block drawn with a probability in proportion to its squared distance from the nearest
   block chosen so far, the first one in proportion to its energy. Returns how many there are, fewer than `words` where
   all blocks have been chosen. entries: [length, blocks]; distances, added: [blocks], written over. */
int64_t airfl_seeds(const float *entries, int64_t blocks, int64_t length, const double *uniforms, int64_t words,
                    double *distances, double *added, int64_t *chosen)
{
    for (int64_t b = 0; b < blocks; b++)
        distances[b] = 1e-300;
    for (int64_t k = 0; k < length; k++)
        for (int64_t b = 0; b < blocks; b++)
            distances[b] += (double)entries[k * blocks + b] * entries[k * blocks + b];
    for (int64_t word = 0; word < words; word++) {
        double total = 0;
        for (int64_t b = 0; b < blocks; b++) {
            total += distances[b];
            added[b] = total;
        }
        if (!(total > 1e-290))
            return word;
        int64_t own = 0;
        while (own < blocks - 1 && added[own] < uniforms[word] * total)
            own++;
        chosen[word] = own;
        memset(added, 0, blocks * sizeof *added);
        for (int64_t k = 0; k < length; k++) {
            const float *row = entries + k * blocks;
            float centre = row[own];
            for (int64_t b = 0; b < blocks; b++) {
                double away = row[b] - centre;
                added[b] += away * away;
            }
        }
        for (int64_t b = 0; b < blocks; b++)
            distances[b] = added[b] < distances[b] ? added[b] : distances[b];
    }
    return words;
}

/* sums += x' rows for x [count] and rows [count, width]; width is a multiple of LANES. */
static inline void add_products(const float *x, const float *rows, int64_t count, int64_t width, float *sums)
{
    const Lanes *from = (const Lanes *)rows;
    Lanes *into = (Lanes *)sums;
    int64_t each = width / LANES, j = 0;
    for (; j + 4 <= each; j += 4) {
        Lanes a = into[j], b = into[j + 1], c = into[j + 2], d = into[j + 3];
        for (int64_t k = 0; k < count; k++) {
            const Lanes *row = from + k * each + j;
            a += x[k] * row[0];
            b += x[k] * row[1];
            c += x[k] * row[2];
            d += x[k] * row[3];
        }
        into[j] = a;
        into[j + 1] = b;
        into[j + 2] = c;
        into[j + 3] = d;
    }
    for (; j < each; j++) {
        Lanes even = into[j], odd = {0};
        int64_t k = 0;
        for (; k + 2 <= count; k += 2) {
            even += x[k] * from[k * each + j];
            odd += x[k + 1] * from[(k + 1) * each + j];
        }
        if (k < count)
            even += x[k] * from[k * each + j];
        into[j] = even + odd;
    }
}

static inline int64_t padded(int64_t width)
{
    return (width + LANES - 1) / LANES * LANES;
}

/* noisy[n] = counts[b] + state[b]' A and noise[n] = |state[b]|^2/length for each active block b = active[n]. state:
   [blocks, length]; counts: [blocks, words]; columns: A, [length, words], with rows of padded(words); scratch:
   [padded(words)]. */
void airfl_correlate(const float *state, const float *counts, const int64_t *active, int64_t number,
                     const float *columns, int64_t length, int64_t words, float *scratch, float *noisy, float *noise)
{
    int64_t width = padded(words);
    memset(scratch, 0, width * sizeof *scratch);
    for (int64_t n = 0; n < number; n++) {
        const float *z = state + active[n] * length;
        memcpy(scratch, counts + active[n] * words, words * sizeof *scratch);
        add_products(z, columns, length, width, scratch);
        memcpy(noisy + n * words, scratch, words * sizeof *noisy);
        float sum = 0;
        for (int64_t l = 0; l < length; l++)
            sum += z[l] * z[l];
        noise[n] = sum / (float)length;
    }
}

/* The counts of each active block b = active[n] become the values at noisy[n] of the table tables[lines[n]], which has
   `steps` points between two counts from -1 on; its state becomes received[b] - A counts + state[b] sum(slopes)/length;
   and changes[n] is the largest change of a count. received, state: [blocks, length]; counts: [blocks, words]; rows: A',
   [words, length], with rows of padded(length); tables: [lines, points]; scratch: [3 words + padded(length)]. */
void airfl_decide(const float *received, float *state, float *counts, const int64_t *active, int64_t number,
                  const float *rows, int64_t length, int64_t words, const float *noisy, const float *tables,
                  const int32_t *lines, int64_t points, float steps, float *scratch, float *changes)
{
    float *restrict less = scratch, *restrict lows = scratch + words, *restrict highs = lows + words;
    float *restrict sums = highs + words;
    float last = (float)(points - 1);
    int32_t most = (int32_t)points - 2;
    memset(sums, 0, padded(length) * sizeof *sums);
    for (int64_t n = 0; n < number; n++) {
        const float *restrict table = tables + lines[n] * points, *restrict r = noisy + n * words;
        const float *y = received + active[n] * length;
        float *restrict x = counts + active[n] * words, *z = state + active[n] * length, slope = 0;
        int32_t change = 0; /* numbers that are not negative are ordered as their bits */
        for (int64_t q = 0; q < words; q++) {
            float place = (r[q] + 1.0f) * steps;
            place = place > 0.0f ? place : 0.0f;
            place = place < last ? place : last;
            int32_t below = (int32_t)place;
            below = below < most ? below : most;
            less[q] = place - (float)below; /* the fraction */
            memcpy(highs + q, &below, sizeof below);
        }
        for (int64_t q = 0; q < words; q++) {
            int32_t below;
            memcpy(&below, highs + q, sizeof below);
            lows[q] = table[below];
            highs[q] = table[below + 1];
        }
        for (int64_t q = 0; q < words; q++) {
            int32_t bits;
            float rise = highs[q] - lows[q], count = lows[q] + rise * less[q], moved = fabsf(count - x[q]);
            memcpy(&bits, &moved, sizeof bits);
            change = bits > change ? bits : change;
            slope += rise;
            x[q] = count;
            less[q] = -count;
        }
        memcpy(changes + n, &change, sizeof change);
        slope *= steps / (float)length;
        for (int64_t l = 0; l < length; l++)
            sums[l] = y[l] + z[l] * slope;
        add_products(less, rows, words, padded(length), sums);
        memcpy(z, sums, length * sizeof *z);
    }
}

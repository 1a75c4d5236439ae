/* Uniform numbers of many devices by numpy's generator, Philox 4x64-10 (Salmon et al., Parallel random numbers: as easy
   as 1, 2, 3, 2011): those of numpy.random.Generator(Philox(key, counter=[0, 0, 0, device + 1])).random, bit for bit;
   and the orders of items that are sorted by them. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BITS 53 /* of a uniform number: the upper bits of a word */

static inline uint64_t product(uint64_t a, uint64_t b, uint64_t *high)
{
    unsigned __int128 both = (unsigned __int128)a * b;
    *high = (uint64_t)(both >> 64);
    return (uint64_t)both;
}

/* The words of a block of four numbers of a device's stream. numpy increments the counter before it draws, so that the
   first block is 1. */
static inline void block_of(const uint64_t key[2], int64_t device, uint64_t block, uint64_t words[4])
{
    uint64_t key0 = key[0], key1 = key[1];
    words[0] = block;
    words[1] = words[2] = 0;
    words[3] = (uint64_t)device + 1;
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
}

/* out: [rows, count]; a row for each device. */
void airfl_device_uniforms(const uint64_t key[2], const int64_t *devices, int64_t rows, int64_t count, double *out)
{
    for (int64_t row = 0; row < rows; row++)
        for (int64_t first = 0; first < count; first += 4) {
            uint64_t words[4];
            block_of(key, devices[row], (uint64_t)first / 4 + 1, words);
            for (int64_t i = 0; i < 4 && i < count - first; i++)
                *out++ = (double)(words[i] >> (64 - BITS)) * 0x1p-53;
        }
}

typedef struct {
    uint64_t number;
    int64_t item;
} Item;

/* Sort items by their numbers, those with equal numbers as they stand. Uniform numbers fill as many buckets as there are
   items about evenly, so that hardly any order is left within a bucket. */
static void sort(const Item *given, int64_t size, int64_t *starts, Item *sorted)
{
    memset(starts, 0, (size + 1) * sizeof *starts);
#define BUCKET(number) ((uint64_t)((unsigned __int128)(number) * (uint64_t)size >> BITS))
    for (int64_t i = 0; i < size; i++)
        starts[BUCKET(given[i].number) + 1]++;
    for (int64_t bucket = 0; bucket < size; bucket++)
        starts[bucket + 1] += starts[bucket];
    for (int64_t i = 0; i < size; i++)
        sorted[starts[BUCKET(given[i].number)]++] = given[i];
#undef BUCKET
    for (int64_t i = 1; i < size; i++) {
        Item one = sorted[i];
        int64_t place = i;
        for (; place > 0 && sorted[place - 1].number > one.number; place--)
            sorted[place] = sorted[place - 1];
        sorted[place] = one;
    }
}

/* Orders of the items of each device in each pass, by the first sizes[row] of `largest` numbers: [rows, passes, width],
   filled up with -1. width: at least the largest of sizes. Returns 1 if there is not enough memory, else 0. */
int airfl_device_orders(const uint64_t key[2], const int64_t *devices, const int64_t *sizes, int64_t rows,
                        int64_t passes, int64_t largest, int64_t width, int64_t *out)
{
    Item *given = malloc((width + 1) * sizeof *given), *sorted = malloc((width + 1) * sizeof *sorted);
    int64_t *starts = malloc((width + 1) * sizeof *starts);
    int failed = !given || !sorted || !starts;
    for (int64_t row = 0; row < rows && !failed; row++)
        for (int64_t pass = 0; pass < passes; pass++) {
            int64_t begin = pass * largest, end = begin + sizes[row];
            for (int64_t first = begin / 4 * 4; first < end; first += 4) {
                uint64_t words[4];
                block_of(key, devices[row], (uint64_t)first / 4 + 1, words);
                for (int64_t i = 0; i < 4; i++)
                    if (first + i >= begin && first + i < end)
                        given[first + i - begin] = (Item){words[i] >> (64 - BITS), first + i - begin};
            }
            sort(given, sizes[row], starts, sorted);
            for (int64_t i = 0; i < width; i++)
                *out++ = i < sizes[row] ? sorted[i].item : -1;
        }
    free(given);
    free(sorted);
    free(starts);
    return failed;
}

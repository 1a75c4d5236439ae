/* Random numbers by address: Philox 4x32-10 (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, 2011), and
   normal numbers from it by the method of Box and Muller (1958).

   The numbers are those of reference.py, bit for bit. Every operation on floats is one of IEEE 754 in the order written
   here, so this file must be compiled without contraction into fused operations and without -ffast-math. */
#include <math.h>
#include <stdint.h>
#include <string.h>

/* Counters at a time, and what holds one of their words. AVX-512 multiplies the low halves of 64-bit numbers, whose
   high halves are then neither moved nor cleared; with shorter vectors, 32-bit numbers are faster. */
#ifdef __AVX512F__
#define WIDTH 32
typedef uint64_t Word;
#else
#define WIDTH 16
typedef uint32_t Word;
#endif
#define NUMBERS (4 * WIDTH)

typedef struct {
    uint64_t device;
    uint32_t key[2];
    uint32_t round;
} Address;

/* The four words of each counter (block, round, device's low word, device's high word). */
static inline void words_of(const Address *at, const uint32_t block[WIDTH], uint32_t words[4][WIDTH])
{
#ifdef __AVX512F__
    Word a[WIDTH], b[WIDTH], c[WIDTH], d[WIDTH]; /* of which the low 32 bits count */
#else
    Word *a = words[0], *b = words[1], *c = words[2], *d = words[3];
#endif
    uint32_t key0 = at->key[0], key1 = at->key[1];
    for (int i = 0; i < WIDTH; i++) {
        a[i] = block[i];
        b[i] = at->round;
        c[i] = (uint32_t)at->device;
        d[i] = (Word)(at->device >> 32);
    }
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < WIDTH; i++) {
            uint64_t p = (uint64_t)0xD2511F53u * (uint32_t)a[i], q = (uint64_t)0xCD9E8D57u * (uint32_t)c[i];
            a[i] = (Word)(q >> 32) ^ b[i] ^ key0;
            b[i] = (Word)q;
            c[i] = (Word)(p >> 32) ^ d[i] ^ key1;
            d[i] = (Word)p;
        }
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
#ifdef __AVX512F__
    for (int i = 0; i < WIDTH; i++) {
        words[0][i] = (uint32_t)a[i];
        words[1][i] = (uint32_t)b[i];
        words[2][i] = (uint32_t)c[i];
        words[3][i] = (uint32_t)d[i];
    }
#endif
}

/* The words of WIDTH blocks one after another. */
static inline void blocks_from(const Address *at, uint32_t first, uint32_t words[4][WIDTH])
{
    uint32_t block[WIDTH];
    for (int i = 0; i < WIDTH; i++)
        block[i] = first + (uint32_t)i;
    words_of(at, block, words);
}

static inline uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* sqrt(-2 ln u) for u = (word + 1/2)/2^32. The polynomial is that of logf in Cephes. */
static inline float radius(uint32_t word)
{
    float u = (float)word * 0x1p-32f + 0x1p-33f;
    int32_t exponent = (int32_t)(bits_of(u) - 0x3F3504F3u) >> 23; /* leaves a factor from sqrt(1/2) to sqrt(2) */
    float x = float_of(bits_of(u) - ((uint32_t)exponent << 23)) - 1.0f;
    float square = x * x;
    float p = 7.0376836292e-2f;
    p = p * x + -1.1514610310e-1f;
    p = p * x + 1.1676998740e-1f;
    p = p * x + -1.2420140846e-1f;
    p = p * x + 1.4249322787e-1f;
    p = p * x + -1.6668057665e-1f;
    p = p * x + 2.0000714765e-1f;
    p = p * x + -2.4999993993e-1f;
    p = p * x + 3.3333331174e-1f;
    float logarithm = (p * x * square - 0.5f * square + x) + (float)exponent * 0.693147180559945f;
    return sqrtf(-2.0f * (logarithm < 0.0f ? logarithm : 0.0f));
}

/* r times cosine and sine of an angle. The two high bits of the word are the quarter turn, the next 24 are the place
   within it. The polynomials are those of sinf and cosf in Cephes. */
static inline void on_circle(float r, uint32_t word, float *first, float *second)
{
    float t = ((float)((int32_t)((word >> 6) & 0xFFFFFFu) - 0x800000) + 0.5f) * 9.362675e-8f; /* pi/2^25 */
    float w = t * t;
    float sine = ((-1.9515295891e-4f * w + 8.3321608736e-3f) * w + -1.6666654611e-1f) * w * t + t;
    float cosine = ((2.443315711809948e-5f * w + -1.388731625493765e-3f) * w + 4.166664568298827e-2f) * w * w
                   - 0.5f * w + 1.0f;
    uint32_t quarter = word >> 30;
    float x = quarter & 1 ? sine : cosine, y = quarter & 1 ? cosine : sine;
    *first = r * float_of(bits_of(x) ^ ((quarter + 1) & 2) << 30);
    *second = r * float_of(bits_of(y) ^ (quarter & 2) << 30);
}

/* Words to normal numbers, in the order of the stream. */
static inline void normals_of(uint32_t words[4][WIDTH], float numbers[NUMBERS])
{
    float z[4][WIDTH];
    for (int i = 0; i < WIDTH; i++)
        on_circle(radius(words[0][i]), words[1][i], &z[0][i], &z[1][i]);
    for (int i = 0; i < WIDTH; i++)
        on_circle(radius(words[2][i]), words[3][i], &z[2][i], &z[3][i]);
    for (int i = 0; i < WIDTH; i++)
        for (int lane = 0; lane < 4; lane++)
            numbers[4 * i + lane] = z[lane][i];
}

/* How many of the NUMBERS from the block of `first` on are taken, after the first & 3 that are skipped. */
static inline int taken(uint64_t first, uint64_t left)
{
    int most = NUMBERS - (int)(first & 3);
    return left < (uint64_t)most ? (int)left : most;
}

/* out += scale * normal number, for positions start to start + count - 1 of the stream. */
void airfl_add_normals(const Address *at, uint64_t start, uint64_t count, float scale, float *out)
{
    uint32_t words[4][WIDTH];
    float numbers[NUMBERS];
    for (int number; count; start += number, count -= number, out += number) {
        number = taken(start, count);
        blocks_from(at, (uint32_t)(start >> 2), words);
        normals_of(words, numbers);
        const float *from = numbers + (start & 3);
        for (int i = 0; i < number; i++)
            out[i] += scale * from[i];
    }
}

void airfl_normals(const Address *at, uint64_t start, uint64_t count, float *out)
{
    uint32_t words[4][WIDTH];
    float numbers[NUMBERS];
    for (int number; count; start += number, count -= number, out += number) {
        number = taken(start, count);
        blocks_from(at, (uint32_t)(start >> 2), words);
        normals_of(words, numbers);
        memcpy(out, numbers + (start & 3), number * sizeof *out);
    }
}

/* out += scale * normal number, at ascending positions of the stream. */
void airfl_add_normals_at(const Address *at, const int64_t *positions, uint64_t count, float scale, float *out)
{
    uint32_t words[4][WIDTH], block[WIDTH] = {0};
    float numbers[NUMBERS];
    int place[NUMBERS];
    for (uint64_t done = 0; done < count;) {
        int blocks = 0, number = 0;
        for (; done + number < count && number < NUMBERS; number++) {
            uint32_t wanted = (uint32_t)(positions[done + number] >> 2);
            if (!blocks || block[blocks - 1] != wanted) {
                if (blocks == WIDTH)
                    break;
                block[blocks++] = wanted;
            }
            place[number] = 4 * (blocks - 1) + (int)(positions[done + number] & 3);
        }
        words_of(at, block, words);
        normals_of(words, numbers);
        for (int i = 0; i < number; i++)
            out[done + i] += scale * numbers[place[i]];
        done += number;
    }
}

/* (24 high bits + 1/2)/2^24 of each word, in the order of the stream. */
static inline void uniforms_of(uint32_t words[4][WIDTH], float numbers[NUMBERS])
{
    for (int i = 0; i < WIDTH; i++)
        for (int lane = 0; lane < 4; lane++)
            numbers[4 * i + lane] = ((float)(int32_t)(words[lane][i] >> 8) + 0.5f) * 0x1p-24f;
}

void airfl_uniforms(const Address *at, uint64_t start, uint64_t count, float *out)
{
    uint32_t words[4][WIDTH];
    float numbers[NUMBERS];
    for (int number; count; start += number, count -= number, out += number) {
        number = taken(start, count);
        blocks_from(at, (uint32_t)(start >> 2), words);
        uniforms_of(words, numbers);
        memcpy(out, numbers + (start & 3), number * sizeof *out);
    }
}

/* The words for NUMBERS numbers of `each` words, from the block of the word `first` on. */
static inline void words_from(const Address *at, uint64_t first, uint32_t each, uint32_t *out)
{
    uint32_t words[4][WIDTH];
    for (uint32_t part = 0; part < each; part++) {
        blocks_from(at, (uint32_t)(first >> 2) + part * WIDTH, words);
        for (int i = 0; i < WIDTH; i++)
            for (int lane = 0; lane < 4; lane++)
                *out++ = words[lane][i];
    }
}

void airfl_words(const Address *at, uint64_t start, uint64_t count, uint32_t *out)
{
    uint32_t numbers[NUMBERS];
    for (int number; count; start += number, count -= number, out += number) {
        number = taken(start, count);
        words_from(at, start, 1, numbers);
        memcpy(out, numbers + (start & 3), number * sizeof *out);
    }
}

#define MOST_WORDS 16 /* of a number: 512 trials */

/* How many of the `trials` bits of each number are ones. A number takes `each` = ceil(trials/32) words, the last one's
   low bits unused. */
static inline void ones_of(const uint32_t *words, uint32_t trials, uint32_t each, int number, float *ones)
{
    uint32_t unused = 32 * each - trials;
    for (int i = 0; i < number; i++) {
        const uint32_t *own = words + (uint64_t)i * each;
        int sum = __builtin_popcount(own[each - 1] >> unused);
        for (uint32_t word = 0; word + 1 < each; word++)
            sum += __builtin_popcount(own[word]);
        ones[i] = (float)sum;
    }
}

/* The next numbers from Bin(trials, 1/2), for the position `start` on; returns how many. trials: 1 to 512. */
static inline int next_ones(const Address *at, uint32_t trials, uint64_t start, uint64_t left, float ones[NUMBERS])
{
    uint32_t words[NUMBERS * MOST_WORDS], each = (trials + 31) / 32;
    uint64_t first = start * each;
    int skipped = (int)(first & 3), number = NUMBERS - (skipped + (int)each - 1) / (int)each;
    number = left < (uint64_t)number ? (int)left : number;
    words_from(at, first, each, words);
    if (each == 3) /* as a constant, so that the loop over words is unrolled */
        ones_of(words + skipped, trials, 3, number, ones);
    else
        ones_of(words + skipped, trials, each, number, ones);
    return number;
}

void airfl_ones(const Address *at, uint32_t trials, uint64_t start, uint64_t count, float *out)
{
    float ones[NUMBERS];
    for (int number; count; start += number, count -= number, out += number) {
        number = next_ones(at, trials, start, count, ones);
        memcpy(out, ones, number * sizeof *out);
    }
}

/* out += scale * (Bin(trials, 1/2) - trials/2). */
void airfl_add_ones(const Address *at, uint32_t trials, uint64_t start, uint64_t count, float scale, float *out)
{
    float ones[NUMBERS];
    for (int number; count; start += number, count -= number, out += number) {
        number = next_ones(at, trials, start, count, ones);
        for (int i = 0; i < number; i++)
            out[i] += scale * (ones[i] - 0.5f * (float)trials);
    }
}

/* Each value, in steps from `-limit`, becomes one of the two integers around it, the upper one if a uniform number is
   smaller than the fraction; then `centre` is subtracted. */
void airfl_round(const Address *at, uint64_t start, uint64_t count, double limit, double step, double centre,
                 float *values)
{
    uint32_t words[4][WIDTH];
    float numbers[NUMBERS];
    for (int number; count; start += number, count -= number, values += number) {
        number = taken(start, count);
        blocks_from(at, (uint32_t)(start >> 2), words);
        uniforms_of(words, numbers);
        const float *uniform = numbers + (start & 3);
        for (int i = 0; i < number; i++) {
            double value = values[i];
            value = value < -limit ? -limit : value > limit ? limit : value;
            double above = (value + limit) / step, lower = floor(above);
            double up = (double)uniform[i] < above - lower ? 1.0 : 0.0;
            values[i] = (float)(lower + up - centre);
        }
    }
}

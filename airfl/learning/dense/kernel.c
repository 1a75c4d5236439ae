/* Fully connected networks under cross-entropy: local SGD with momentum, and sums of per-sample gradients.

   One device is computed after another, so that its parameters stay in the processor's cache. Parameters are given in
   torch's layout, weights [outputs, inputs] and biases [outputs]; at work each row is padded with zeros to whole
   vectors. Every product is one of two kinds: `dots` of rows (forward), and sums of `outer` products (both gradients).
   They are computed in tiles whose sums stay in registers, DOT_ROWS x DOT_COLUMNS and ROWS x TILE. A first layer with
   few inputs is transposed for training: sums over lanes would take its forward pass as long as the products. */
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __AVX512F__
#define LANES 16
#define DOT_ROWS 5
#else
#define LANES 8
#define DOT_ROWS 3 /* 5 would need more than 16 registers */
#endif
#define DOT_COLUMNS 4
#define ROWS 5
#define TILE 2
#define ALIGNED 64
#define FEW_INPUTS 64
#define UNKNOWN_CLASS 2

typedef float Vector __attribute__((vector_size(4 * LANES)));
typedef int32_t Mask __attribute__((vector_size(4 * LANES)));
#define INLINE static inline __attribute__((always_inline))

enum { NONE, RELU, SIGMOID, TANH };

typedef struct {
    int64_t inputs, outputs;
    int32_t bias, activation; /* whether there is a bias; the activation that follows */
} Layer;

/* Samples: float32 inputs, or bytes and the number that stands for each of the 256 values in each channel. */
typedef struct {
    const float *floats;
    const uint8_t *bytes;
    const float *values; /* [channels, 256] */
    int64_t channel;     /* numbers in a channel */
    const int64_t *targets;
} Samples;

/* A layer at work. A row of `inputs` is the output of the layer before. */
typedef struct {
    int64_t inputs, outputs, wide; /* wide: numbers in a row of inputs, with padding */
    int32_t bias, activation, transposed;
    float *weights, *velocity;     /* [outputs, wide]; transposed, [inputs, padded(outputs)] */
    float *biases, *bias_velocity; /* [padded(outputs)] */
    float *input, *delta;          /* [batch, wide]; [batch, padded(outputs)], gradient of outputs */
} Work;

static int64_t padded(int64_t numbers)
{
    return (numbers + LANES - 1) / LANES * LANES;
}

INLINE Vector load(const float *from)
{
    return *(const Vector *)from;
}

INLINE void store(float *into, Vector numbers)
{
    *(Vector *)into = numbers;
}

INLINE Vector all(float number)
{
    return number - (Vector){0};
}

#ifdef __clang__
#define SHUFFLED(one, other, ...) __builtin_shufflevector(one, other, __VA_ARGS__)
#else
#define SHUFFLED(one, other, ...) __builtin_shuffle(one, other, (Mask){__VA_ARGS__})
#endif

typedef float Totals __attribute__((vector_size(16)));

/* The sums of the lanes of four vectors, in the order of halving: lanes i and i + n/2 first. */
INLINE Totals totals(Vector a, Vector b, Vector c, Vector d)
{
#if LANES == 16
    Vector ab = SHUFFLED(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23)
              + SHUFFLED(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    Vector cd = SHUFFLED(c, d, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23)
              + SHUFFLED(c, d, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    /* Its quarters are a, c, b and d. */
    Vector sums = SHUFFLED(ab, cd, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27)
               + SHUFFLED(ab, cd, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31);
    sums += SHUFFLED(sums, sums, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
    sums += SHUFFLED(sums, sums, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
    Vector in_order = SHUFFLED(sums, sums, 0, 8, 4, 12, 0, 8, 4, 12, 0, 8, 4, 12, 0, 8, 4, 12);
#else
    Vector ab = SHUFFLED(a, b, 0, 1, 2, 3, 8, 9, 10, 11) + SHUFFLED(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
    Vector cd = SHUFFLED(c, d, 0, 1, 2, 3, 8, 9, 10, 11) + SHUFFLED(c, d, 4, 5, 6, 7, 12, 13, 14, 15);
    Vector sums = SHUFFLED(ab, cd, 0, 1, 8, 9, 4, 5, 12, 13) + SHUFFLED(ab, cd, 2, 3, 10, 11, 6, 7, 14, 15);
    sums += SHUFFLED(sums, sums, 1, 0, 3, 2, 5, 4, 7, 6);
    Vector in_order = SHUFFLED(sums, sums, 0, 4, 2, 6, 0, 4, 2, 6);
#endif
    Totals found;
    memcpy(&found, &in_order, sizeof found);
    return found;
}

/* Lanes of `one` where the mask is set, else those of `other`. */
INLINE Vector chosen(Mask mask, Vector one, Vector other)
{
    return (Vector)(((Mask)one & mask) | ((Mask)other & ~mask));
}

/* min(max(x, -limit), limit); NaN stays NaN. */
INLINE Vector clamped(Vector x, Vector limit)
{
    return chosen(x < -limit, -limit, chosen(x > limit, limit, x));
}

/* The lanes of the last vector of a padded row that are numbers of it. */
INLINE Mask present_lanes(int64_t numbers)
{
    Mask present;
    for (int lane = 0; lane < LANES; lane++)
        present[lane] = lane < numbers - (padded(numbers) - LANES) ? -1 : 0;
    return present;
}

/* exp(x) for x <= 0, by the polynomial of expf in Cephes. */
INLINE Vector exponential(Vector x)
{
    x = chosen(x < all(-87.0f), all(-87.0f), x);
    Mask power = __builtin_convertvector(x * 1.44269504088896341f - 0.5f, Mask);
    Vector whole = __builtin_convertvector(power, Vector), rest = x - whole * 0.693359375f - whole * -2.12194440e-4f;
    Vector p = all(1.9875691500e-4f);
    p = p * rest + 1.3981999507e-3f;
    p = p * rest + 8.3334519073e-3f;
    p = p * rest + 4.1665795894e-2f;
    p = p * rest + 1.6666665459e-1f;
    p = p * rest + 5.0000001201e-1f;
    p = p * rest * rest + rest + 1.0f;
    return p * (Vector)((power + 127) << 23);
}

/* into[r, c] = left[r] . right[c] + biases[c] */
INLINE void dots_tile(const int rows, const int columns, const float *left, const float *right, int64_t wide,
                      const float *biases, float *into, int64_t stride)
{
    Vector sums[DOT_ROWS][DOT_COLUMNS] = {{{0}}};
    for (int64_t k = 0; k < wide; k += LANES) {
        Vector others[DOT_COLUMNS];
        for (int c = 0; c < columns; c++)
            others[c] = load(right + c * wide + k);
        for (int r = 0; r < rows; r++) {
            Vector one = load(left + r * wide + k);
            for (int c = 0; c < columns; c++)
                sums[r][c] += one * others[c];
        }
    }
    for (int r = 0; r < rows; r++) {
        Totals found = totals(sums[r][0], sums[r][1], sums[r][2], sums[r][3]), shift = {0};
        if (biases)
            memcpy(&shift, biases, columns * sizeof *biases);
        found += shift;
        memcpy(into + r * stride, &found, columns * sizeof *into);
    }
}

INLINE void dots_rows(const int rows, const float *left, const float *right, int64_t wide, const float *biases,
                      int64_t columns, float *into, int64_t stride)
{
    int64_t c = 0;
    for (; c + DOT_COLUMNS <= columns; c += DOT_COLUMNS)
        dots_tile(rows, DOT_COLUMNS, left, right + c * wide, wide, biases ? biases + c : NULL, into + c, stride);
    switch (columns - c) {
    case 3: dots_tile(rows, 3, left, right + c * wide, wide, biases ? biases + c : NULL, into + c, stride); break;
    case 2: dots_tile(rows, 2, left, right + c * wide, wide, biases ? biases + c : NULL, into + c, stride); break;
    case 1: dots_tile(rows, 1, left, right + c * wide, wide, biases ? biases + c : NULL, into + c, stride); break;
    }
}

static void dots(int64_t rows, const float *left, const float *right, int64_t wide, const float *biases, int64_t columns,
                 float *into, int64_t stride)
{
    for (; rows >= DOT_ROWS; rows -= DOT_ROWS, left += DOT_ROWS * wide, into += DOT_ROWS * stride)
        dots_rows(DOT_ROWS, left, right, wide, biases, columns, into, stride);
    for (; rows >= 2; rows -= 2, left += 2 * wide, into += 2 * stride)
        dots_rows(2, left, right, wide, biases, columns, into, stride);
    if (rows)
        dots_rows(1, left, right, wide, biases, columns, into, stride);
}

/* What becomes of the sums of outer products. */
typedef struct {
    const float *start; /* [columns], added to every row; NULL for zeros */
    float *into, *velocity; /* velocity: NULL, and the sums are written; else a step of SGD changes `into` */
    float rate, momentum, limit; /* limit: of each product; infinite for none */
} Ending;

/* The sum over k of left[k, r] right[k, c], for rows r and vectors of columns c from the first on. */
INLINE void outer_tile(const int rows, const int vectors, const int clamps, const float *left, int64_t left_row,
                       int64_t left_depth, const float *right, int64_t right_depth, int64_t depth, Ending ending,
                       int64_t stride)
{
    Vector sums[ROWS][TILE] = {{{0}}};
    if (ending.start)
        for (int r = 0; r < rows; r++)
            for (int v = 0; v < vectors; v++)
                sums[r][v] = load(ending.start + v * LANES);
    for (int64_t k = 0; k < depth; k++) {
        Vector others[TILE];
        for (int v = 0; v < vectors; v++)
            others[v] = load(right + k * right_depth + v * LANES);
        for (int r = 0; r < rows; r++) {
            Vector one = all(left[r * left_row + k * left_depth]);
            for (int v = 0; v < vectors; v++)
                sums[r][v] += clamps ? clamped(one * others[v], all(ending.limit)) : one * others[v];
        }
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++) {
            int64_t place = r * stride + v * LANES;
            if (ending.velocity) {
                Vector speed = sums[r][v];
                if (ending.momentum != 0.0f)
                    speed += all(ending.momentum) * load(ending.velocity + place);
                store(ending.velocity + place, speed);
                store(ending.into + place, load(ending.into + place) - all(ending.rate) * speed);
            } else {
                store(ending.into + place, sums[r][v]);
            }
        }
}

INLINE void outer_rows(const int rows, const int clamps, const float *left, int64_t left_row, int64_t left_depth,
                       const float *right, int64_t right_depth, int64_t depth, int64_t wide, Ending ending)
{
    for (int64_t c = 0; c < wide; c += TILE * LANES) {
        Ending here = ending;
        here.into += c;
        here.start += ending.start ? c : 0;
        here.velocity += ending.velocity ? c : 0;
        if (c + TILE * LANES <= wide)
            outer_tile(rows, TILE, clamps, left, left_row, left_depth, right + c, right_depth, depth, here, wide);
        else
            outer_tile(rows, 1, clamps, left, left_row, left_depth, right + c, right_depth, depth, here, wide);
    }
}

/* into[r, c] from the sums over k of left[k, r] right[k, c]; rows of `into` and of `velocity` have `wide` numbers. */
INLINE void outer(const int clamps, int64_t rows, const float *left, int64_t left_row, int64_t left_depth,
                  const float *right, int64_t right_depth, int64_t depth, int64_t wide, Ending ending)
{
    for (; rows >= ROWS; rows -= ROWS, left += ROWS * left_row, ending.into += ROWS * wide,
                         ending.velocity += ending.velocity ? ROWS * wide : 0)
        outer_rows(ROWS, clamps, left, left_row, left_depth, right, right_depth, depth, wide, ending);
    switch (rows) {
    case 4: outer_rows(4, clamps, left, left_row, left_depth, right, right_depth, depth, wide, ending); break;
    case 3: outer_rows(3, clamps, left, left_row, left_depth, right, right_depth, depth, wide, ending); break;
    case 2: outer_rows(2, clamps, left, left_row, left_depth, right, right_depth, depth, wide, ending); break;
    case 1: outer_rows(1, clamps, left, left_row, left_depth, right, right_depth, depth, wide, ending); break;
    }
}

static void plain_outer(int64_t rows, const float *left, int64_t left_row, int64_t left_depth, const float *right,
                        int64_t right_depth, int64_t depth, int64_t wide, Ending ending)
{
    outer(0, rows, left, left_row, left_depth, right, right_depth, depth, wide, ending);
}

static void clamped_outer(int64_t rows, const float *left, int64_t left_row, int64_t left_depth, const float *right,
                          int64_t right_depth, int64_t depth, int64_t wide, Ending ending)
{
    outer(1, rows, left, left_row, left_depth, right, right_depth, depth, wide, ending);
}

static void activate(const Work *layer, int64_t batch, float *rows)
{
    int64_t stride = padded(layer->outputs), numbers = batch * stride;
    Mask present = present_lanes(layer->outputs);
    switch (layer->activation) {
    case RELU:
        for (int64_t i = 0; i < numbers; i++)
            rows[i] = rows[i] < 0.0f ? 0.0f : rows[i];
        break;
    case SIGMOID:
        for (int64_t i = 0; i < numbers; i += LANES) {
            Vector y = load(rows + i), e = exponential(chosen(y < 0.0f, y, -y));
            y = chosen(y < 0.0f, e, all(1.0f)) / (1.0f + e);
            store(rows + i, (i + LANES) % stride ? y : (Vector)((Mask)y & present));
        }
        break;
    case TANH:
        for (int64_t i = 0; i < numbers; i++)
            rows[i] = tanhf(rows[i]);
        break;
    }
}

/* Multiply the gradient of a layer's outputs by the derivative of its activation, known from the outputs. */
static void deactivate(const Work *layer, int64_t batch, const float *outputs)
{
    int64_t numbers = batch * padded(layer->outputs);
    float *delta = layer->delta;
    switch (layer->activation) {
    case RELU:
        for (int64_t i = 0; i < numbers; i++)
            delta[i] = outputs[i] <= 0.0f ? 0.0f : delta[i];
        break;
    case SIGMOID:
        for (int64_t i = 0; i < numbers; i++)
            delta[i] *= outputs[i] * (1.0f - outputs[i]);
        break;
    case TANH:
        for (int64_t i = 0; i < numbers; i++)
            delta[i] *= 1.0f - outputs[i] * outputs[i];
        break;
    }
}

/* Whether every target is a class, so that nothing is written beside the logits. */
static int known(const Work *last, int64_t batch, const int64_t *targets)
{
    for (int64_t b = 0; b < batch; b++)
        if (targets[b] < 0 || targets[b] >= last->outputs)
            return 0;
    return 1;
}

/* Logits to gradients of the sum of weights[b] * cross-entropy of sample b. */
static void softmax_gradients(const Work *last, int64_t batch, const int64_t *targets, const float *weights)
{
    int64_t stride = padded(last->outputs);
    Mask present = present_lanes(last->outputs);
    for (int64_t b = 0; b < batch; b++) {
        float *z = last->delta + b * stride, *end = z + stride - LANES;
        Vector highest = chosen(present, load(end), all(-INFINITY)), sum = {0};
        for (float *o = z; o < end; o += LANES)
            highest = chosen(load(o) > highest, load(o), highest);
        float most = highest[0];
        for (int lane = 1; lane < LANES; lane++)
            most = highest[lane] > most ? highest[lane] : most;
        for (float *o = z; o <= end; o += LANES) {
            Vector e = exponential(load(o) - most);
            if (o == end)
                e = (Vector)((Mask)e & present);
            sum += e;
            store(o, e);
        }
        float scale = weights[b] / totals(sum, sum, sum, sum)[0];
        for (float *o = z; o <= end; o += LANES)
            store(o, load(o) * scale);
        z[targets[b]] -= weights[b];
    }
}

/* Both passes: leaves the gradient of the weighted sum of losses with respect to each layer's outputs in `delta`. */
static void passes(Work *layers, int32_t count, int64_t batch, const int64_t *targets, const float *weights)
{
    for (int32_t l = 0; l < count; l++) {
        Work *layer = layers + l;
        float *into = l + 1 < count ? layers[l + 1].input : layer->delta;
        const float *biases = layer->bias ? layer->biases : NULL;
        int64_t out = padded(layer->outputs);
        if (layer->transposed) {
            Ending ending = {biases, into, NULL, 0.0f, 0.0f, INFINITY};
            plain_outer(batch, layer->input, layer->wide, 1, layer->weights, out, layer->inputs, out, ending);
        } else {
            dots(batch, layer->input, layer->weights, layer->wide, biases, layer->outputs, into, out);
        }
        activate(layer, batch, into);
    }
    softmax_gradients(layers + count - 1, batch, targets, weights);
    for (int32_t l = count - 1; l > 0; l--) {
        Work *layer = layers + l;
        Ending ending = {NULL, layers[l - 1].delta, NULL, 0.0f, 0.0f, INFINITY};
        plain_outer(batch, layer->delta, padded(layer->outputs), 1, layer->weights, layer->wide, layer->outputs,
                    layer->wide, ending);
        deactivate(layers + l - 1, batch, layer->input);
    }
}

/* The inputs of samples that are present, one after another; returns how many there are. */
static int64_t gather(const Samples *samples, const int64_t *rows, int64_t batch, const Work *first, int64_t *targets)
{
    int64_t present = 0, inputs = first->inputs;
    for (int64_t b = 0; b < batch; b++) {
        if (rows[b] < 0)
            continue;
        float *into = first->input + present * first->wide;
        if (samples->floats) {
            memcpy(into, samples->floats + rows[b] * inputs, inputs * sizeof *into);
        } else {
            const uint8_t *from = samples->bytes + rows[b] * inputs;
            const float *values = samples->values;
            for (int64_t start = 0; start < inputs; start += samples->channel, values += 256)
                for (int64_t i = start; i < start + samples->channel; i++)
                    into[i] = values[from[i]];
        }
        targets[present++] = samples->targets[rows[b]];
    }
    return present;
}

static int64_t dimension_of(const Layer *given, int32_t count)
{
    int64_t dimension = 0;
    for (int32_t l = 0; l < count; l++)
        dimension += given[l].outputs * (given[l].inputs + given[l].bias);
    return dimension;
}

static int64_t number_of_weights(const Work *layer)
{
    return layer->transposed ? layer->inputs * padded(layer->outputs) : layer->outputs * layer->wide;
}

/* Parameters in torch's order to padded rows. */
static void spread(Work *layers, int32_t count, const float *parameters)
{
    for (int32_t l = 0; l < count; l++) {
        Work *layer = layers + l;
        int64_t out = padded(layer->outputs);
        for (int64_t o = 0; o < layer->outputs; o++, parameters += layer->inputs) {
            if (!layer->transposed)
                memcpy(layer->weights + o * layer->wide, parameters, layer->inputs * sizeof *parameters);
            for (int64_t i = 0; layer->transposed && i < layer->inputs; i++)
                layer->weights[i * out + o] = parameters[i];
        }
        if (layer->bias) {
            memcpy(layer->biases, parameters, layer->outputs * sizeof *parameters);
            parameters += layer->outputs;
        }
    }
}

/* Parameters in torch's order less `start`. */
static void differences(const Work *layers, int32_t count, const float *start, float *into)
{
    for (int32_t l = 0; l < count; l++) {
        const Work *layer = layers + l;
        int64_t out = padded(layer->outputs);
        for (int64_t o = 0; o < layer->outputs; o++, start += layer->inputs, into += layer->inputs) {
            const float *weights = layer->weights + (layer->transposed ? o : o * layer->wide);
            int64_t stride = layer->transposed ? out : 1;
            for (int64_t i = 0; i < layer->inputs; i++)
                into[i] = weights[i * stride] - start[i];
        }
        for (int64_t o = 0; layer->bias && o < layer->outputs; o++)
            *into++ = layer->biases[o] - *start++;
    }
}

/* Memory for the layers, set to zero, and its size; NULL if there is not enough. */
static float *workspace(const Layer *given, int32_t count, int64_t batch, int trained, Work *layers, size_t *bytes)
{
    float *memory = NULL, *next = NULL;
    for (int pass = 0; pass < 2; pass++) { /* the first counts */
        int64_t numbers = 0;
        for (int32_t l = 0; l < count; l++) {
            int64_t wide = padded(given[l].inputs), out = padded(given[l].outputs);
            Work *layer = layers + l;
            float **places[] = {&layer->weights,       &layer->biases, &layer->velocity,
                                &layer->bias_velocity, &layer->input,  &layer->delta};
            layer->inputs = given[l].inputs;
            layer->outputs = given[l].outputs;
            layer->wide = wide;
            layer->bias = given[l].bias;
            layer->activation = given[l].activation;
            layer->transposed = trained && !l && count > 1 && wide <= FEW_INPUTS && 4 * (out - layer->outputs) <= out;
            int64_t weights = number_of_weights(layer);
            int64_t sizes[] = {weights, out, weights, out, batch * wide, batch * out};
            for (int part = 0; part < 6; part++) {
                *places[part] = pass ? next + numbers : NULL;
                numbers += (sizes[part] * 4 + ALIGNED - 1) / ALIGNED * ALIGNED / 4;
            }
        }
        if (!pass) {
            if (!(memory = aligned_alloc(ALIGNED, numbers * sizeof *memory)))
                return NULL;
            *bytes = numbers * sizeof *memory;
            memset(memory, 0, *bytes);
            next = memory;
        }
    }
    return memory;
}

/* The gradients of all parameters, by `passes`, and what becomes of them. */
static void step(Work *layers, int32_t count, int64_t batch, float rate, float momentum)
{
    for (int32_t l = 0; l < count; l++) {
        Work *layer = layers + l;
        int64_t out = padded(layer->outputs);
        Ending ending = {NULL, layer->weights, layer->velocity, rate, momentum, INFINITY};
        if (layer->transposed)
            plain_outer(layer->inputs, layer->input, 1, layer->wide, layer->delta, out, batch, out, ending);
        else
            plain_outer(layer->outputs, layer->delta, 1, out, layer->input, layer->wide, batch, layer->wide, ending);
        for (int64_t o = 0; layer->bias && o < layer->outputs; o += LANES) {
            Vector speed = {0};
            for (int64_t b = 0; b < batch; b++)
                speed += load(layer->delta + b * out + o);
            if (momentum != 0.0f)
                speed += all(momentum) * load(layer->bias_velocity + o);
            store(layer->bias_velocity + o, speed);
            store(layer->biases + o, load(layer->biases + o) - all(rate) * speed);
        }
    }
}

/* Local SGD of several devices, which threads take one after another. */
typedef struct {
    const Layer *given;
    int32_t count;
    const float *start;
    const Samples *samples;
    const int64_t *rows;
    int64_t devices, steps, batch;
    float rate, momentum;
    float *updates;
    int64_t dimension;
    int64_t next;   /* the device that is taken next */
    int32_t failed; /* see `airfl_dense_train` */
} Training;

static int train_device(const Training *t, int64_t device, Work *layers, int64_t *targets, float *weights)
{
    const int64_t *rows = t->rows + device * t->steps * t->batch;
    spread(layers, t->count, t->start);
    for (int64_t s = 0; s < t->steps; s++, rows += t->batch) {
        int64_t present = gather(t->samples, rows, t->batch, layers, targets);
        if (!present)
            continue;
        if (!known(layers + t->count - 1, present, targets))
            return UNKNOWN_CLASS;
        for (int64_t b = 0; b < present; b++)
            weights[b] = 1.0f / (float)present;
        passes(layers, t->count, present, targets, weights);
        step(layers, t->count, present, t->rate, t->momentum);
    }
    differences(layers, t->count, t->start, t->updates + device * t->dimension);
    return 0;
}

static void *train_devices(void *training)
{
    Training *t = training;
    Work layers[t->count];
    size_t bytes;
    float *memory = workspace(t->given, t->count, t->batch, 1, layers, &bytes);
    float *weights = malloc(t->batch * sizeof *weights);
    int64_t *targets = malloc(t->batch * sizeof *targets), device;
    int32_t failed = !memory || !weights || !targets;
    while (!failed && (device = __atomic_fetch_add(&t->next, 1, __ATOMIC_RELAXED)) < t->devices) {
        memset(memory, 0, bytes); /* velocities, and padding that is not finite after a device that diverged */
        failed = train_device(t, device, layers, targets, weights);
    }
    if (failed)
        __atomic_store_n(&t->failed, failed, __ATOMIC_RELAXED);
    free(memory);
    free(weights);
    free(targets);
    return NULL;
}

/* updates[i] = parameters after local SGD from `start`, less `start`, for each device, in `threads` threads beside this
   one; rows: [devices, steps, batch] of samples, negative for none; meanwhile: called by this thread before it takes
   part, unless NULL. Returns 0, 1 if there is not enough memory, or UNKNOWN_CLASS. */
int airfl_dense_train(const Layer *given, int32_t count, const float *start, const Samples *samples, const int64_t *rows,
                      int64_t devices, int64_t steps, int64_t batch, float rate, float momentum, float *updates,
                      int32_t threads, void (*meanwhile)(void))
{
    pthread_t others[threads + 1];
    Training t = {given, count, start, samples, rows, devices, steps, batch, rate, momentum, updates,
                  dimension_of(given, count), 0, 0};
    int32_t started = 0;
    while (started < threads && !pthread_create(others + started, NULL, train_devices, &t))
        started++;
    if (meanwhile)
        meanwhile();
    train_devices(&t);
    while (started)
        pthread_join(others[--started], NULL);
    return t.failed;
}

/* Scale each sample's gradient to the norm `bound` if it is larger. */
static void clip_norms(Work *layers, int32_t count, int64_t batch, float bound)
{
    for (int64_t b = 0; b < batch; b++) {
        float squares = 0.0f;
        for (int32_t l = 0; l < count; l++) {
            Vector input = {0};
            float delta = 0.0f, length;
            for (int64_t i = 0; i < layers[l].wide; i += LANES) {
                Vector x = load(layers[l].input + b * layers[l].wide + i);
                input += x * x;
            }
            for (int64_t o = 0; o < layers[l].outputs; o++) {
                float d = layers[l].delta[b * padded(layers[l].outputs) + o];
                delta += d * d;
            }
            length = totals(input, input, input, input)[0];
            squares += delta * (length + (float)layers[l].bias);
        }
        float norm = sqrtf(squares), factor = norm <= bound ? 1.0f : bound / norm;
        for (int32_t l = 0; l < count; l++)
            for (int64_t o = 0; o < layers[l].outputs; o++)
                layers[l].delta[b * padded(layers[l].outputs) + o] *= factor;
    }
}

/* sums[i] = sum over samples j of present[i, j] g_j, where each g_j is first clipped to the norm `bound`, or its
   coordinates to [-limit, limit] (infinite for neither). parameters: [devices, d], or [d] for all if `shared`; inputs:
   [devices, batch, inputs]; targets, present: [devices, batch]. Returns 0, 1 if there is not enough memory, or
   UNKNOWN_CLASS. */
int airfl_dense_sums(const Layer *given, int32_t count, const float *parameters, int32_t shared, const float *inputs,
                     const int64_t *targets, const float *present, int64_t devices, int64_t batch, float bound,
                     float limit, float *sums)
{
    Work layers[count];
    int64_t dimension = dimension_of(given, count);
    size_t bytes;
    float *memory = workspace(given, count, batch, 0, layers, &bytes);
    if (!memory)
        return 1;
    if (!known(layers + count - 1, devices * batch, targets)) {
        free(memory);
        return UNKNOWN_CLASS;
    }
    for (int64_t device = 0; device < devices; device++, targets += batch, present += batch) {
        if (!shared || !device)
            spread(layers, count, parameters + (shared ? 0 : device * dimension));
        for (int64_t b = 0; b < batch; b++, inputs += layers->inputs)
            memcpy(layers->input + b * layers->wide, inputs, layers->inputs * sizeof *inputs);
        passes(layers, count, batch, targets, present);
        if (isfinite(bound))
            clip_norms(layers, count, batch, bound);
        for (int32_t l = 0; l < count; l++) {
            Work *layer = layers + l;
            int64_t out = padded(layer->outputs);
            Ending ending = {NULL, layer->velocity, NULL, 0.0f, 0.0f, limit};
            (isfinite(limit) ? clamped_outer : plain_outer)(layer->outputs, layer->delta, 1, out, layer->input,
                                                            layer->wide, batch, layer->wide, ending);
            for (int64_t o = 0; o < layer->outputs; o++, sums += layer->inputs)
                memcpy(sums, layer->velocity + o * layer->wide, layer->inputs * sizeof *sums);
            for (int64_t o = 0; layer->bias && o < layer->outputs; o++) {
                float sum = 0.0f;
                for (int64_t b = 0; b < batch; b++) {
                    float one = layer->delta[b * out + o];
                    sum += one > limit ? limit : one < -limit ? -limit : one;
                }
                *sums++ = sum;
            }
        }
    }
    free(memory);
    return 0;
}

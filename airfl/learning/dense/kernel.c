/* Fully connected networks under cross-entropy: local SGD with momentum, and sums of per-sample gradients.

   One device is computed after another, so that its parameters stay in the processor's cache. Parameters are in torch's
   layout, weights [outputs, inputs] and biases [outputs], and in memory each row is padded with zeros to whole vectors.
   Every product is one of two kinds: `dots` of rows (forward), and sums of `outer` products (both gradients). They are
   computed in tiles of ROWS x TILE, whose sums stay in registers. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __AVX512F__
#define LANES 16
#else
#define LANES 8
#endif
#define ROWS 5
#define TILE 2
#define ALIGNED 64
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
    int32_t bias, activation;
    float *weights, *biases, *velocity, *bias_velocity; /* [outputs, wide], [outputs] */
    float *input, *delta;                               /* [batch, wide]; [batch, padded(outputs)], gradient of outputs */
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

/* The sums of the lanes of two vectors. */
INLINE void totals(Vector one, Vector other, float *first, float *second)
{
#if LANES == 16
    Vector both = SHUFFLED(one, other, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23)
                + SHUFFLED(one, other, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    both += SHUFFLED(both, both, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
    both += SHUFFLED(both, both, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
    both += SHUFFLED(both, both, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
#else
    Vector both = SHUFFLED(one, other, 0, 1, 2, 3, 8, 9, 10, 11) + SHUFFLED(one, other, 4, 5, 6, 7, 12, 13, 14, 15);
    both += SHUFFLED(both, both, 2, 3, 0, 1, 6, 7, 4, 5);
    both += SHUFFLED(both, both, 1, 0, 3, 2, 5, 4, 7, 6);
#endif
    *first = both[0];
    *second = both[LANES / 2];
}

/* min(max(x, -limit), limit); NaN stays NaN. */
INLINE Vector clamped(Vector x, Vector limit)
{
    Mask high = x > limit, low = x < -limit;
    Vector most = (Vector)(((Mask)limit & high) | ((Mask)x & ~high));
    return (Vector)(((Mask)-limit & low) | ((Mask)most & ~low));
}

/* exp(x) for x <= 0, by the polynomial of expf in Cephes. */
INLINE float exponential(float x)
{
    x = x < -87.0f ? -87.0f : x;
    int32_t power = (int32_t)(x * 1.44269504088896341f - 0.5f);
    float whole = (float)power, rest = x - whole * 0.693359375f - whole * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * rest + 1.3981999507e-3f;
    p = p * rest + 8.3334519073e-3f;
    p = p * rest + 4.1665795894e-2f;
    p = p * rest + 1.6666665459e-1f;
    p = p * rest + 5.0000001201e-1f;
    p = p * rest * rest + rest + 1.0f;
    uint32_t bits = (uint32_t)(power + 127) << 23;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}

/* into[r, c] = left[r] . right[c] + biases[c] */
INLINE void dots_tile(const int rows, const int columns, const float *left, const float *right, int64_t wide,
                      const float *biases, float *into, int64_t stride)
{
    Vector sums[ROWS][TILE] = {{{0}}};
    for (int64_t k = 0; k < wide; k += LANES) {
        Vector others[TILE];
        for (int c = 0; c < columns; c++)
            others[c] = load(right + c * wide + k);
        for (int r = 0; r < rows; r++) {
            Vector one = load(left + r * wide + k);
            for (int c = 0; c < columns; c++)
                sums[r][c] += one * others[c];
        }
    }
    for (int r = 0; r < rows; r++) {
        float found[TILE];
        totals(sums[r][0], sums[r][1], &found[0], &found[1]);
        for (int c = 0; c < columns; c++)
            into[r * stride + c] = found[c] + (biases ? biases[c] : 0.0f);
    }
}

INLINE void dots_rows(const int rows, const float *left, const float *right, int64_t wide, const float *biases,
                      int64_t columns, float *into, int64_t stride)
{
    int64_t c = 0;
    for (; c + TILE <= columns; c += TILE)
        dots_tile(rows, TILE, left, right + c * wide, wide, biases ? biases + c : NULL, into + c, stride);
    for (; c < columns; c++)
        dots_tile(rows, 1, left, right + c * wide, wide, biases ? biases + c : NULL, into + c, stride);
}

static void dots(int64_t rows, const float *left, const float *right, int64_t wide, const float *biases, int64_t columns,
                 float *into, int64_t stride)
{
    for (; rows >= ROWS; rows -= ROWS, left += ROWS * wide, into += ROWS * stride)
        dots_rows(ROWS, left, right, wide, biases, columns, into, stride);
    switch (rows) {
    case 4: dots_rows(4, left, right, wide, biases, columns, into, stride); break;
    case 3: dots_rows(3, left, right, wide, biases, columns, into, stride); break;
    case 2: dots_rows(2, left, right, wide, biases, columns, into, stride); break;
    case 1: dots_rows(1, left, right, wide, biases, columns, into, stride); break;
    }
}

/* What becomes of the sums of outer products. */
typedef struct {
    float *into, *velocity; /* velocity: NULL, and the sums are written; else a step of SGD changes `into` */
    float rate, momentum, limit; /* limit: of each product; infinite for none */
} Ending;

/* The sum over k of left[k, r] right[k, c], for rows r and vectors of columns c from the first on. */
INLINE void outer_tile(const int rows, const int vectors, const int clamps, const float *left, int64_t left_row,
                       int64_t left_depth, const float *right, int64_t right_depth, int64_t depth, Ending ending,
                       int64_t stride)
{
    Vector sums[ROWS][TILE] = {{{0}}};
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
    int64_t stride = padded(layer->outputs);
    for (int64_t b = 0; b < batch; b++) {
        float *y = rows + b * stride;
        switch (layer->activation) {
        case RELU:
            for (int64_t o = 0; o < layer->outputs; o++)
                y[o] = y[o] < 0.0f ? 0.0f : y[o];
            break;
        case SIGMOID:
            for (int64_t o = 0; o < layer->outputs; o++) {
                float e = exponential(-fabsf(y[o]));
                y[o] = (y[o] < 0.0f ? e : 1.0f) / (1.0f + e);
            }
            break;
        case TANH:
            for (int64_t o = 0; o < layer->outputs; o++)
                y[o] = tanhf(y[o]);
            break;
        }
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
    int64_t classes = last->outputs, stride = padded(classes);
    for (int64_t b = 0; b < batch; b++) {
        float *z = last->delta + b * stride, most = z[0], sum = 0.0f;
        for (int64_t o = 1; o < classes; o++)
            most = z[o] > most ? z[o] : most;
        for (int64_t o = 0; o < stride; o++)
            z[o] = exponential(z[o] - most);
        for (int64_t o = 0; o < classes; o++)
            sum += z[o];
        float scale = weights[b] / sum;
        for (int64_t o = 0; o < classes; o++)
            z[o] *= scale;
        z[targets[b]] -= weights[b];
    }
}

/* Both passes: leaves the gradient of the weighted sum of losses with respect to each layer's outputs in `delta`. */
static void passes(Work *layers, int32_t count, int64_t batch, const int64_t *targets, const float *weights)
{
    for (int32_t l = 0; l < count; l++) {
        Work *layer = layers + l;
        float *into = l + 1 < count ? layers[l + 1].input : layer->delta;
        dots(batch, layer->input, layer->weights, layer->wide, layer->bias ? layer->biases : NULL, layer->outputs, into,
             padded(layer->outputs));
        activate(layer, batch, into);
    }
    softmax_gradients(layers + count - 1, batch, targets, weights);
    for (int32_t l = count - 1; l > 0; l--) {
        Work *layer = layers + l;
        Ending ending = {layers[l - 1].delta, NULL, 0.0f, 0.0f, INFINITY};
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

/* Parameters in torch's order to padded rows. */
static void spread(Work *layers, int32_t count, const float *parameters)
{
    for (int32_t l = 0; l < count; l++) {
        Work *layer = layers + l;
        for (int64_t o = 0; o < layer->outputs; o++, parameters += layer->inputs)
            memcpy(layer->weights + o * layer->wide, parameters, layer->inputs * sizeof *parameters);
        if (layer->bias) {
            memcpy(layer->biases, parameters, layer->outputs * sizeof *parameters);
            parameters += layer->outputs;
        }
    }
}

/* Memory for the layers, set to zero; NULL if there is not enough. */
static float *workspace(const Layer *given, int32_t count, int64_t batch, Work *layers)
{
    float *memory = NULL, *next = NULL;
    for (int pass = 0; pass < 2; pass++) { /* the first counts */
        int64_t numbers = 0;
        for (int32_t l = 0; l < count; l++) {
            int64_t wide = padded(given[l].inputs), out = padded(given[l].outputs);
            int64_t weights = given[l].outputs * wide;
            int64_t sizes[] = {weights, out, weights, out, batch * wide, batch * out};
            Work *layer = layers + l;
            float **places[] = {&layer->weights,       &layer->biases, &layer->velocity,
                                &layer->bias_velocity, &layer->input,  &layer->delta};
            layer->inputs = given[l].inputs;
            layer->outputs = given[l].outputs;
            layer->wide = wide;
            layer->bias = given[l].bias;
            layer->activation = given[l].activation;
            for (int part = 0; part < 6; part++) {
                *places[part] = pass ? next + numbers : NULL;
                numbers += (sizes[part] * 4 + ALIGNED - 1) / ALIGNED * ALIGNED / 4;
            }
        }
        if (!pass) {
            if (!(memory = aligned_alloc(ALIGNED, numbers * sizeof *memory)))
                return NULL;
            memset(memory, 0, numbers * sizeof *memory);
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
        Ending ending = {layer->weights, layer->velocity, rate, momentum, INFINITY};
        plain_outer(layer->outputs, layer->delta, 1, out, layer->input, layer->wide, batch, layer->wide, ending);
        for (int64_t o = 0; layer->bias && o < layer->outputs; o++) {
            float sum = 0.0f;
            for (int64_t b = 0; b < batch; b++)
                sum += layer->delta[b * out + o];
            layer->bias_velocity[o] = momentum != 0.0f ? momentum * layer->bias_velocity[o] + sum : sum;
            layer->biases[o] -= rate * layer->bias_velocity[o];
        }
    }
}

/* updates[i] = parameters after local SGD from `start`, less `start`, for each device; rows: [devices, steps, batch] of
   samples, negative for none. Returns 0, 1 if there is not enough memory, or UNKNOWN_CLASS. */
int airfl_dense_train(const Layer *given, int32_t count, const float *start, const Samples *samples, const int64_t *rows,
                      int64_t devices, int64_t steps, int64_t batch, float rate, float momentum, float *updates)
{
    Work layers[count];
    float *memory = workspace(given, count, batch, layers), *weights = malloc(batch * sizeof *weights);
    int64_t *targets = malloc(batch * sizeof *targets);
    int failed = !memory || !weights || !targets;
    for (int64_t device = 0; device < devices && !failed; device++) {
        spread(layers, count, start);
        for (int32_t l = 0; l < count; l++) {
            memset(layers[l].velocity, 0, layers[l].outputs * layers[l].wide * sizeof(float));
            memset(layers[l].bias_velocity, 0, layers[l].outputs * sizeof(float));
        }
        for (int64_t s = 0; s < steps; s++, rows += batch) {
            int64_t present = gather(samples, rows, batch, layers, targets);
            if (!present)
                continue;
            if (!known(layers + count - 1, present, targets)) {
                failed = UNKNOWN_CLASS;
                break;
            }
            for (int64_t b = 0; b < present; b++)
                weights[b] = 1.0f / (float)present;
            passes(layers, count, present, targets, weights);
            step(layers, count, present, rate, momentum);
        }
        const float *before = start;
        for (int32_t l = 0; l < count; l++) {
            for (int64_t o = 0; o < layers[l].outputs; o++)
                for (int64_t i = 0; i < layers[l].inputs; i++)
                    *updates++ = layers[l].weights[o * layers[l].wide + i] - *before++;
            for (int64_t o = 0; layers[l].bias && o < layers[l].outputs; o++)
                *updates++ = layers[l].biases[o] - *before++;
        }
    }
    free(memory);
    free(weights);
    free(targets);
    return failed;
}

/* Scale each sample's gradient to the norm `bound` if it is larger. */
static void clip_norms(Work *layers, int32_t count, int64_t batch, float bound)
{
    for (int64_t b = 0; b < batch; b++) {
        float squares = 0.0f;
        for (int32_t l = 0; l < count; l++) {
            Vector input = {0};
            float delta = 0.0f, length, unused;
            for (int64_t i = 0; i < layers[l].wide; i += LANES) {
                Vector x = load(layers[l].input + b * layers[l].wide + i);
                input += x * x;
            }
            for (int64_t o = 0; o < layers[l].outputs; o++) {
                float d = layers[l].delta[b * padded(layers[l].outputs) + o];
                delta += d * d;
            }
            totals(input, input, &length, &unused);
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
    int64_t dimension = 0;
    for (int32_t l = 0; l < count; l++)
        dimension += given[l].outputs * (given[l].inputs + given[l].bias);
    float *memory = workspace(given, count, batch, layers);
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
            Ending ending = {layer->velocity, NULL, 0.0f, 0.0f, limit};
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

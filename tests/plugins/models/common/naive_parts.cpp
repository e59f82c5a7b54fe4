#include "plugins/models/common/naive_parts.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>

#include "mortise/attention.h"
#include "mortise/plugin.hpp"

struct mortise_weight {
  int32_t use;
  int64_t rows, columns;
  std::vector<double> values;
};

namespace mortise::test {

NaiveLog& naive_log() {
  static NaiveLog log;
  return log;
}

namespace {

void require(bool fits, const char* what) {
  if (!fits) throw Failure(MORTISE_INVALID_ARGUMENT, "naive", what);
}

float& at(const mortise_tensor& t, int64_t i, int64_t j) {
  return static_cast<float*>(t.data)[i * t.stride[0] + j * t.stride[1]];
}
float& at(const mortise_tensor& t, int64_t i, int64_t j, int64_t k) {
  return static_cast<float*>(t.data)[i * t.stride[0] + j * t.stride[1] + k * t.stride[2]];
}

void require_matrix(const mortise_tensor& t, int64_t rows, int64_t columns) {
  require(t.dtype == MORTISE_F32 && t.ndim == 2 && t.shape[0] == rows && t.shape[1] == columns, "shape");
  require(rows == 0 || ((rows - 1) * t.stride[0] + columns) * 4 <= static_cast<int64_t>(t.bytes), "bytes");
}

double read_value(const mortise_tensor& t, int64_t i, int64_t j) {
  const int64_t offset = i * t.stride[0] + (t.ndim > 1 ? j * t.stride[1] : 0);
  if (t.dtype == MORTISE_F32) return static_cast<const float*>(t.data)[offset];
  const uint16_t half = static_cast<const uint16_t*>(t.data)[offset];
  require(t.dtype == MORTISE_F16, "the naive device reads f32 and f16");
  const int exponent = half >> 10 & 31;
  const double magnitude =
      exponent == 0 ? std::ldexp(half & 1023, -24) : std::ldexp(1024 + (half & 1023), exponent - 25);
  return half >> 15 ? -magnitude : magnitude;
}

// ---- device ----

mortise_status describe(mortise_device*, mortise_device_info* info) {
  info->host_memory = 1;
  return MORTISE_OK;
}

const char* numerics_id(mortise_device*, int32_t dtype) {
  return dtype == MORTISE_F32 ? "naive-f32/1" : nullptr;
}

mortise_status allocate(mortise_device*, uint64_t bytes, void** memory, mortise_error* error) {
  if (!naive_log().has_memory) {
    return guard(error, "allocate", [] { throw Failure(MORTISE_RESOURCE_EXHAUSTED, "allocate", "no memory"); });
  }
  ++naive_log().num_allocations;
  *memory = std::calloc(bytes, 1);
  return MORTISE_OK;
}

void free_memory(mortise_device*, void* memory) {
  if (memory != nullptr) --naive_log().num_allocations;
  std::free(memory);
}

mortise_status prepare_weight(mortise_device*, const mortise_weight_source* source, mortise_weight** weight,
                              mortise_error* error) {
  return guard(error, "prepare_weight", [&] {
    auto out = std::make_unique<mortise_weight>(mortise_weight{source->use, 0, 1, {}});
    for (int32_t p = 0; p < source->num_parts; ++p) {
      const mortise_tensor& part = *source->parts[p];
      out->columns = part.ndim == 2 ? part.shape[1] : 1;
      out->rows += part.shape[0];
      for (int64_t i = 0; i < part.shape[0]; ++i) {
        for (int64_t j = 0; j < out->columns; ++j) out->values.push_back(read_value(part, i, j));
      }
    }
    ++naive_log().num_weights;
    *weight = out.release();
  });
}

void free_weight(mortise_device*, mortise_weight* weight) {
  if (weight != nullptr) --naive_log().num_weights;
  delete weight;
}

mortise_status linear(mortise_device*, mortise_stream*, const mortise_linear_args* args, mortise_error* error) {
  return guard(error, "linear", [&] {
    naive_log().operations.push_back("linear");
    const mortise_weight& weight = *args->weight;
    const int64_t begin = args->column_begin;
    const int64_t end = args->column_end == 0 ? weight.rows : args->column_end;
    require((weight.use & MORTISE_WEIGHT_LINEAR) != 0, "not a linear weight");
    require(begin % 64 == 0 && (end % 64 == 0 || end == weight.rows), "columns");
    require_matrix(*args->x, args->x->shape[0], weight.columns);
    require(args->bias == nullptr || args->bias->rows == weight.rows, "bias");
    const auto product = [&](int64_t m, int64_t n) {
      double sum = args->bias == nullptr ? 0.0 : args->bias->values[n];
      for (int64_t k = 0; k < weight.columns; ++k) sum += at(*args->x, m, k) * weight.values[n * weight.columns + k];
      return sum;
    };
    const bool gated = args->gate_activation != 0;
    require(!gated || (args->gate_activation == MORTISE_ACT_SILU && begin == 0 && args->column_end == 0), "gated");
    const int64_t columns = gated ? weight.rows / 2 : end - begin;
    require_matrix(*args->out, args->x->shape[0], columns);
    for (int64_t m = 0; m < args->x->shape[0]; ++m) {
      for (int64_t n = 0; n < columns; ++n) {
        double value = product(m, begin + n);
        if (gated) value = value / (1.0 + std::exp(-value)) * product(m, columns + n);
        at(*args->out, m, n) = static_cast<float>(value);
      }
    }
  });
}

mortise_status embed(mortise_device*, mortise_stream*, const int32_t* ids, const mortise_weight* weight,
                     const mortise_tensor* out, mortise_error* error) {
  return guard(error, "embed", [&] {
    naive_log().operations.push_back("embed");
    require((weight->use & MORTISE_WEIGHT_EMBEDDING) != 0, "not an embedding");
    require_matrix(*out, out->shape[0], weight->columns);
    for (int64_t m = 0; m < out->shape[0]; ++m) {
      for (int64_t n = 0; n < weight->columns; ++n) {
        at(*out, m, n) = static_cast<float>(weight->values[ids[m] * weight->columns + n]);
      }
    }
  });
}

void norm_row(float* row, int64_t n, const mortise_weight& weight, double eps) {
  require(weight.use == MORTISE_WEIGHT_VECTOR && weight.rows == n, "norm weight");
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += double{row[i]} * row[i];
  const double scale = 1.0 / std::sqrt(sum / static_cast<double>(n) + eps);
  for (int64_t i = 0; i < n; ++i) row[i] = static_cast<float>(row[i] * scale * weight.values[i]);
}

mortise_status rms_norm(mortise_device*, mortise_stream*, const mortise_norm_args* args, mortise_error* error) {
  return guard(error, "rms_norm", [&] {
    naive_log().operations.push_back("rms_norm");
    const int64_t rows = args->x->shape[0];
    const int64_t columns = args->x->shape[1];
    require_matrix(*args->x, rows, columns);
    require_matrix(*args->out, rows, columns);
    if (args->residual != nullptr) require_matrix(*args->residual, rows, columns);
    for (int64_t m = 0; m < rows; ++m) {
      for (int64_t n = 0; n < columns; ++n) {
        float value = at(*args->x, m, n);
        if (args->residual != nullptr) value = at(*args->residual, m, n) += value;
        at(*args->out, m, n) = value;
      }
      norm_row(&at(*args->out, m, 0), columns, *args->weight, args->eps);
    }
  });
}

mortise_status gated_activation(mortise_device*, mortise_stream*, int32_t activation, const mortise_tensor* x,
                                const mortise_tensor* out, mortise_error* error) {
  return guard(error, "gated_activation", [&] {
    naive_log().operations.push_back("gated_activation");
    require(activation == MORTISE_ACT_SILU, "activation");
    const int64_t columns = out->shape[1];
    require_matrix(*x, out->shape[0], 2 * columns);
    require_matrix(*out, out->shape[0], columns);
    for (int64_t m = 0; m < out->shape[0]; ++m) {
      for (int64_t n = 0; n < columns; ++n) {
        const double gate = at(*x, m, n);
        at(*out, m, n) = static_cast<float>(gate / (1.0 + std::exp(-gate)) * at(*x, m, n + columns));
      }
    }
  });
}

mortise_status layer_norm(mortise_device*, mortise_stream*, const mortise_norm_args* args, mortise_error* error) {
  return guard(error, "layer_norm", [&] {
    naive_log().operations.push_back("layer_norm");
    const auto rows = static_cast<int64_t>(args->x->shape[0]), columns = args->x->shape[1];
    for (const mortise_tensor* t : {args->x, args->out}) require_matrix(*t, rows, columns);
    if (args->residual != nullptr) require_matrix(*args->residual, rows, columns);
    for (const mortise_weight* w : {args->weight, args->bias}) {
      require(w == nullptr || (w->use == MORTISE_WEIGHT_VECTOR && w->rows == columns), "norm weight");
    }
    require(args->weight != nullptr, "no norm weight");
    for (int64_t m = 0; m < rows; ++m) {
      std::vector<double> row;
      double mean = 0, square = 0;
      for (int64_t n = 0; n < columns; ++n) {
        float value = at(*args->x, m, n);
        if (args->residual != nullptr) value = at(*args->residual, m, n) += value;
        row.push_back(value);
        mean += value / static_cast<double>(columns);
      }
      for (const double value : row) square += (value - mean) * (value - mean) / static_cast<double>(columns);
      for (int64_t n = 0; n < columns; ++n) {
        const double normed = (row[n] - mean) / std::sqrt(square + args->eps) * args->weight->values[n];
        at(*args->out, m, n) = static_cast<float>(normed + (args->bias == nullptr ? 0.0 : args->bias->values[n]));
      }
    }
  });
}

double activated(int32_t activation, double x) {
  switch (activation) {
    case MORTISE_ACT_RELU:
      return std::max(x, 0.0);
    case MORTISE_ACT_GELU:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case MORTISE_ACT_GELU_TANH:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
    default:
      throw Failure(MORTISE_INVALID_ARGUMENT, "naive", "activation");
  }
}

mortise_status activation(mortise_device*, mortise_stream*, int32_t activation, const mortise_tensor* x,
                          const mortise_tensor* out, mortise_error* error) {
  return guard(error, "activation", [&] {
    naive_log().operations.push_back("activation");
    for (const mortise_tensor* t : {x, out}) require_matrix(*t, out->shape[0], out->shape[1]);
    for (int64_t m = 0; m < out->shape[0]; ++m) {
      for (int64_t n = 0; n < out->shape[1]; ++n) {
        at(*out, m, n) = static_cast<float>(activated(activation, at(*x, m, n)));
      }
    }
  });
}

mortise_status add(mortise_device*, mortise_stream*, const mortise_tensor* a, const mortise_tensor* b,
                   const mortise_tensor* out, mortise_error* error) {
  return guard(error, "add", [&] {
    naive_log().operations.push_back("add");
    for (const mortise_tensor* t : {a, b, out}) require_matrix(*t, out->shape[0], out->shape[1]);
    for (int64_t m = 0; m < out->shape[0]; ++m) {
      for (int64_t n = 0; n < out->shape[1]; ++n) at(*out, m, n) = at(*a, m, n) + at(*b, m, n);
    }
  });
}

mortise_device_table device_table() {
  auto table = sized<mortise_device_table>();
  table.describe = describe;
  table.numerics_id = numerics_id;
  table.allocate = allocate;
  table.free = free_memory;
  table.prepare_weight = prepare_weight;
  table.free_weight = free_weight;
  table.linear = linear;
  table.embed = embed;
  table.rms_norm = rms_norm;
  table.layer_norm = layer_norm;
  table.gated_activation = gated_activation;
  table.activation = activation;
  table.add = add;
  return table;
}
const mortise_device_table kDeviceTable = device_table();

// ---- attention: K and V of a slot lie at [layer][slot][K, V][num_kv_heads][head_dim] ----

struct Attention {
  mortise_attention_bind_args bound;

  float* slot(int32_t layer, int64_t slot, int32_t kv, int64_t head) const {
    const int64_t slots = int64_t{bound.num_blocks} * bound.block_size;
    const int64_t row = (int64_t{layer} * slots + slot) * 2 + kv;
    return static_cast<float*>(bound.kv) + (row * bound.dims->num_kv_heads + head) * bound.dims->head_dim;
  }
};

mortise_status kv_layout(mortise_attention*, const mortise_model_dims* dims, int32_t, int32_t block_size,
                         mortise_kv_layout* layout, mortise_error*) {
  layout->bytes_per_block =
      uint64_t{8} * dims->num_layers * block_size * static_cast<uint64_t>(dims->num_kv_heads) * dims->head_dim;
  return MORTISE_OK;
}

mortise_status bind(mortise_attention* attention, const mortise_attention_bind_args* args, mortise_error*) {
  reinterpret_cast<Attention*>(attention)->bound = *args;
  return MORTISE_OK;
}

mortise_status plan(mortise_attention*, const mortise_step*, mortise_error*) {
  return MORTISE_OK;
}

void norm_and_rotate(float* head, int32_t head_dim, int32_t position, const mortise_append_args& args,
                     const mortise_weight* norm) {
  if (norm != nullptr) norm_row(head, head_dim, *norm, args.norm_eps);
  if (args.rope == nullptr) return;
  const int32_t half = args.rope->rotary_dim / 2;
  for (int32_t i = 0; i < half; ++i) {
    const double cos = args.rope->cos[int64_t{position} * half + i];
    const double sin = args.rope->sin[int64_t{position} * half + i];
    const double a = head[i];
    const double b = head[i + half];
    head[i] = static_cast<float>(a * cos - b * sin);
    head[i + half] = static_cast<float>(b * cos + a * sin);
  }
}

mortise_status append(mortise_attention* self, const mortise_step* step, const mortise_append_args* args,
                      mortise_error* error) {
  return guard(error, "append", [&] {
    naive_log().operations.push_back("append");
    const auto& attention = *reinterpret_cast<Attention*>(self);
    const mortise_model_dims& dims = *attention.bound.dims;
    const mortise_batch& batch = *step->batch;
    for (const mortise_tensor* t : {args->q, args->k, args->v}) {
      require(t->ndim == 3 && t->shape[0] == batch.num_tokens && t->shape[2] == dims.head_dim, "q, k, v");
    }
    for (int32_t t = 0; t < batch.num_tokens; ++t) {
      const int32_t position = batch.device_positions[t];
      for (int32_t h = 0; h < dims.num_heads; ++h) {
        norm_and_rotate(&at(*args->q, t, h, 0), dims.head_dim, position, *args, args->q_norm);
      }
      for (int32_t h = 0; h < dims.num_kv_heads; ++h) {
        norm_and_rotate(&at(*args->k, t, h, 0), dims.head_dim, position, *args, args->k_norm);
        const int64_t slot = batch.device_slot_mapping[t];
        std::copy_n(&at(*args->k, t, h, 0), dims.head_dim, attention.slot(args->layer, slot, 0, h));
        std::copy_n(&at(*args->v, t, h, 0), dims.head_dim, attention.slot(args->layer, slot, 1, h));
      }
    }
  });
}

// One head of one row: out = softmax(scale * q . K) V over the keys it sees.
void attend(const Attention& attention, const mortise_batch& batch, int32_t layer, int32_t seq, int32_t position,
            int32_t head, const float* q, float* out) {
  const mortise_model_dims& dims = *attention.bound.dims;
  const int32_t window = dims.sliding_windows == nullptr ? 0 : dims.sliding_windows[layer];
  const int32_t first = window == 0 ? 0 : std::max(0, position - window + 1);
  const int32_t kv_head = head / (dims.num_heads / dims.num_kv_heads);
  double sum = 0;
  std::vector<double> mixed(dims.head_dim, 0.0);
  for (int32_t p = first; p <= position; ++p) {
    const int64_t block = batch.device_block_table[seq * batch.max_blocks + p / batch.block_size];
    const int64_t slot = block * batch.block_size + p % batch.block_size;
    const float* k = attention.slot(layer, slot, 0, kv_head);
    const float* v = attention.slot(layer, slot, 1, kv_head);
    double score = 0;
    for (int32_t i = 0; i < dims.head_dim; ++i) score += double{q[i]} * k[i];
    const double weight = std::exp(score * dims.attention_scale);
    sum += weight;
    for (int32_t i = 0; i < dims.head_dim; ++i) mixed[i] += weight * v[i];
  }
  for (int32_t i = 0; i < dims.head_dim; ++i) out[i] = static_cast<float>(mixed[i] / sum);
}

mortise_status run(mortise_attention* self, const mortise_step* step, int32_t layer, const mortise_tensor* q,
                   const mortise_tensor* out, mortise_error* error) {
  return guard(error, "run", [&] {
    naive_log().operations.push_back("run");
    const auto& attention = *reinterpret_cast<Attention*>(self);
    const mortise_batch& batch = *step->batch;
    for (int32_t i = 0; i < batch.num_seqs; ++i) {
      for (int32_t t = batch.device_cu_seqlens_q[i]; t < batch.device_cu_seqlens_q[i + 1]; ++t) {
        for (int32_t h = 0; h < attention.bound.dims->num_heads; ++h) {
          attend(attention, batch, layer, i, batch.device_positions[t], h, &at(*q, t, h, 0), &at(*out, t, h, 0));
        }
      }
    }
  });
}

const mortise_attention_table kAttentionTable = {
    sizeof(mortise_attention_table), 0, kv_layout, bind, plan, append, run, nullptr};

constexpr const char* kNoOptions = R"({"type": "object", "properties": {}})";

template <typename T>
mortise_status create(const mortise_host*, const mortise_create_args*, void** instance, mortise_error*) {
  *instance = new T();
  return MORTISE_OK;
}
template <typename T>
void destroy(void* instance) {
  delete static_cast<T*>(instance);
}

template <typename T>
mortise_component component(int32_t kind, const char* name, const void* table) {
  auto out = sized<mortise_component>();
  out.kind = kind;
  out.name = name;
  out.options_schema = kNoOptions;
  out.table = table;
  out.create = create<T>;
  out.destroy = destroy<T>;
  return out;
}

}  // namespace

const mortise_component kNaiveDevice = component<int>(MORTISE_KIND_DEVICE, "naive", &kDeviceTable);
const mortise_component kNaiveAttention = component<Attention>(MORTISE_KIND_ATTENTION, "naive", &kAttentionTable);

}  // namespace mortise::test

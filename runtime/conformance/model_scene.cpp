#include "conformance/model_scene.hpp"

#include <algorithm>
#include <cmath>

#include "loader/catalog.hpp"
#include "mortise/attention.h"
#include "mortise/numerics.h"
#include "mortise/plugin.hpp"

namespace mortise::conformance {
namespace {

void expect_same_numbers(const std::vector<float>& expected, const std::vector<float>& found, const char* what,
                         const std::pair<std::size_t, std::int32_t>& row_key, const char* name) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto a = mortise_bits_of(expected[i]), b = mortise_bits_of(found[i]);
    expect(a == b, "{}: sequence {}, position {}: {} {} is {} (bits {:#010x}), expected {} (bits {:#010x})", what,
           row_key.first, row_key.second, name, i, found[i], b, expected[i], a);
  }
}

void expect_finite(const Matrix& matrix, const char* name) {
  for (std::size_t i = 0; i < matrix.values.size(); ++i) {
    expect(std::isfinite(matrix.values[i]), "{}: row {}, column {} is {}", name,
           static_cast<std::int64_t>(i) / matrix.columns, static_cast<std::int64_t>(i) % matrix.columns,
           matrix.values[i]);
  }
}

std::vector<float> values_of_row(const Matrix& matrix, std::int64_t row) {
  return {matrix.row(row), matrix.row(row) + matrix.columns};
}

// Throws CaseFailed if `hidden` is not what model.h asks for.
void check_hidden(const mortise_tensor& hidden, std::int64_t rows, std::int64_t columns) {
  expect(hidden.struct_size == sizeof hidden, "forward changes the struct_size of hidden");
  expect(hidden.dtype == MORTISE_BF16 || hidden.dtype == MORTISE_F32, "hidden has the dtype {:#x}, not bf16 or f32",
         hidden.dtype);
  expect(hidden.ndim == 2 && hidden.shape[0] == rows && hidden.shape[1] == columns,
         "hidden has {} dimensions and the shape [{}, {}], expected [{}, {}]", hidden.ndim, hidden.shape[0],
         hidden.shape[1], rows, columns);
  expect(hidden.stride[1] == 1 && hidden.stride[0] >= columns, "hidden has the strides [{}, {}]", hidden.stride[0],
         hidden.stride[1]);
  expect(hidden.data != nullptr, "hidden has no data");
}

}  // namespace

void expect_same_rows(const ModelRows& expected, const ModelRows& found, const char* what) {
  for (const auto& [row_key, row] : found) {
    const auto other = expected.find(row_key);
    if (other == expected.end()) fail("the case compares rows that it has not computed");
    expect_same_numbers(other->second.hidden, row.hidden, what, row_key, "hidden");
    expect_same_numbers(other->second.logits, row.logits, what, row_key, "logit");
  }
}

mortise_model_dims dims_of(const Part& model) {
  auto dims = sized<mortise_model_dims>();
  model.perform("dims", [&](mortise_error* error) {
    return model.table<mortise_model_table>().dims(model.handle<mortise_model>(), &dims, error);
  });
  expect(dims.struct_size == sizeof dims, "dims changes struct_size");
  return dims;
}

ModelScene::ModelScene(Subject& subject, const Part& model, std::int32_t block_size, const DeviceWatch* watch)
    : device_(subject.device()),
      model_(model),
      device_table_(watch == nullptr ? device_.table<mortise_device_table>() : watch->table()),
      dims_(dims_of(model)),
      block_size_(block_size),
      attention_(open_attention()),
      sequences_(device_, block_size, kNumBlocks) {}

ModelScene::~ModelScene() = default;

void ModelScene::replace_attention() {
  attention_ = open_attention();
  ++generation_;
}

// The first call allocates the KV memory.
std::unique_ptr<PartInstance> ModelScene::open_attention() {
  auto query = sized<mortise_query>();
  const std::string device = device_.component().name;
  query.device = device.c_str();
  query.dims = &dims_;
  query.kv_dtype = dims_.dtype;
  query.block_size = block_size_;
  const Component& chosen = PluginCatalog::standard().select(PartKind::kAttention, "paged", query);
  CreateContext context;
  context.device = device_.handle<mortise_device>();
  context.device_table = device_.table<mortise_device_table>();
  auto opened =
      std::make_unique<PartInstance>(chosen, chosen.schema.complete(nlohmann::json::object(), chosen.label()), context);
  const auto& table = *opened->table<mortise_attention_table>();
  auto* const self = opened->handle<mortise_attention>();
  auto layout = sized<mortise_kv_layout>();
  opened->perform("kv_layout", [&](mortise_error* error) {
    return table.kv_layout(self, &dims_, dims_.dtype, block_size_, &layout, error);
  });
  if (kv_ == nullptr) {
    kv_ = std::make_unique<DeviceBuffer>(device_, layout.bytes_per_block * kNumBlocks, std::uint8_t{0});
  }
  auto bind = sized<mortise_attention_bind_args>();
  bind.dims = &dims_;
  bind.kv_dtype = dims_.dtype;
  bind.block_size = block_size_;
  bind.num_blocks = kNumBlocks;
  bind.kv = kv_->data();
  bind.kv_bytes = kv_->size();
  opened->perform("bind", [&](mortise_error* error) { return table.bind(self, &bind, error); });
  mortise_activate_args sizes = usual_sizes();
  sizes.block_size = block_size_;
  sizes.num_blocks = kNumBlocks;
  opened->activate(sizes);
  return opened;
}

// Copies the function tables too, into memory that is gone after the step, so a model that keeps a pointer to a table
// crashes in the next step.
void ModelScene::make_step(const std::vector<SceneRun>& runs, const StepStyle& style) {
  batch_ = sequences_.batch_of(runs, style);
  step_ = sized<mortise_step>();
  step_.generation = generation_;
  step_.batch = batch_->batch;
  step_.device = device_.handle<mortise_device>();
  step_.device_table = batch_->host.copy(device_table_, 1);
  step_.attention = attention_->handle<mortise_attention>();
  step_.attention_table = batch_->host.copy(attention_->table<mortise_attention_table>(), 1);
  step_.world = 1;
}

Matrix ModelScene::read_hidden(const mortise_tensor& hidden) const {
  const std::int64_t rows = step_.batch->num_real_tokens;
  const std::size_t row_bytes = static_cast<std::size_t>(dims_.hidden_size) * (hidden.dtype == MORTISE_BF16 ? 2 : 4);
  const auto stride = static_cast<std::size_t>(hidden.stride[0]) * (hidden.dtype == MORTISE_BF16 ? 2 : 4);
  std::vector<std::uint8_t> bytes(row_bytes);
  Matrix matrix = zeros(hidden.dtype, rows, dims_.hidden_size);
  const auto& table = *device_.table<mortise_device_table>();
  auto* const self = device_.handle<mortise_device>();
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto* const from = static_cast<const std::uint8_t*>(hidden.data) + static_cast<std::size_t>(row) * stride;
    device_.perform(
        "copy", [&](mortise_error* error) { return table.copy(self, nullptr, bytes.data(), from, row_bytes, error); });
    device_.perform("stream_synchronize",
                    [&](mortise_error* error) { return table.stream_synchronize(self, nullptr, error); });
    mortise_load(bytes.data(), hidden.dtype, 1, dims_.hidden_size, matrix.row(row));
  }
  return matrix;
}

void ModelScene::forward(const Part& model) {
  const auto& attention = *step_.attention_table;
  attention_->perform("plan", [&](mortise_error* error) { return attention.plan(step_.attention, &step_, error); });
  auto hidden = sized<mortise_tensor>();
  const mortise_step* const step = batch_->host.copy(&step_, 1);
  model.perform("forward", [&](mortise_error* error) {
    return model.table<mortise_model_table>().forward(model.handle<mortise_model>(), step, &hidden, error);
  });
  check_hidden(hidden, step_.batch->num_tokens, dims_.hidden_size);
  hidden_ = read_hidden(hidden);
  expect_finite(hidden_, "hidden");
  kv_->expect_guards("the KV memory");
}

Matrix ModelScene::head(const Part& model, const Matrix& hidden, std::int32_t begin, std::int32_t end,
                        std::int64_t gap) {
  const DeviceMatrix rows(device_, hidden, gap);
  const DeviceMatrix logits(device_, zeros(MORTISE_F32, hidden.rows, end - begin), gap);
  const mortise_step* const step = batch_->host.copy(&step_, 1);
  model.perform("head", [&](mortise_error* error) {
    return model.table<mortise_model_table>().head(model.handle<mortise_model>(), step, rows.tensor(), begin, end,
                                                   logits.tensor(), error);
  });
  expect_equal(hidden, rows.read(), "head changes hidden");
  Matrix found = logits.read();
  expect_finite(found, "logits");
  return found;
}

ModelRows ModelScene::step_with(const Part& model, const std::vector<SceneRun>& runs, const StepStyle& style) {
  make_step(runs, style);
  forward(model);
  ModelRows rows;
  std::vector<std::pair<std::size_t, std::int32_t>> row_keys;
  for (const SceneRun& run : runs) {
    for (std::int32_t i = 0; i < run.count; ++i) row_keys.emplace_back(run.sequence, run.first + i);
  }
  const std::int64_t most = usual_sizes().max_logit_rows;
  for (std::int64_t first = 0; first < hidden_.rows; first += most) {
    std::vector<std::int64_t> indices;
    for (std::int64_t row = first; row < std::min(first + most, hidden_.rows); ++row) indices.push_back(row);
    const Matrix logits = head(model, hidden_.rows_at(indices), 0, dims_.vocab_size);
    for (const std::int64_t row : indices) {
      rows[row_keys[static_cast<std::size_t>(row)]] = {values_of_row(hidden_, row), values_of_row(logits, row - first)};
    }
  }
  return rows;
}

}  // namespace mortise::conformance

#include "golden/golden_model.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>

#include "checkpoint/checkpoint.hpp"
#include "golden/write_safetensors.hpp"

namespace mortise::test {
namespace {

namespace fs = std::filesystem;

fs::path models_folder() {
  return fs::path(MORTISE_SOURCE_DIR) / "tests/golden/models";
}

std::string plugin_of(const fs::path& folder) {
  const auto type = nlohmann::json::parse(read_file(folder / "config.json")).at("model_type").get<std::string>();
  return type == "opt" || type == "gpt2" ? type : "llama";
}

template <typename Stored, typename T = Stored>
std::vector<T> values(const SafetensorsFile& file, const std::string& name, Dtype dtype) {
  const TensorView& view = file.tensors().at(name);
  if (view.dtype != dtype) throw std::runtime_error(name + " has an unexpected dtype");
  std::vector<Stored> stored(view.bytes.size() / sizeof(Stored));
  std::memcpy(stored.data(), view.bytes.data(), view.bytes.size());
  return {stored.begin(), stored.end()};
}

float f16_to_f32(std::uint16_t half) {
  const int exponent = half >> 10 & 31, fraction = half & 1023;
  const float magnitude =
      exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                    : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);  // infinities: no weight is one
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

std::uint16_t f32_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

std::vector<float> widened(const TensorView& view) {
  if (view.dtype != Dtype::kBf16 && view.dtype != Dtype::kF16 && view.dtype != Dtype::kF32)
    throw std::runtime_error("cannot widen " + view.dtype_name);
  const std::size_t size = dtype_size(view.dtype);
  std::vector<float> out(view.bytes.size() / size);
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint16_t half = 0;
    std::memcpy(view.dtype == Dtype::kF32 ? static_cast<void*>(&out[i]) : &half, view.bytes.data() + i * size, size);
    if (view.dtype == Dtype::kF16) out[i] = f16_to_f32(half);
    if (view.dtype == Dtype::kBf16) out[i] = std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
  }
  return out;
}

std::string rounded_to_bf16(const TensorView& view) {
  std::vector<std::uint16_t> out;
  for (const float value : widened(view)) out.push_back(f32_to_bf16(value));
  return {reinterpret_cast<const char*>(out.data()), out.size() * sizeof out[0]};
}

// Replaces the weights of a group by the numbers that its integers stand for.
void round_group(std::span<float> group, int bits) {
  const auto [least, most] = std::minmax_element(group.begin(), group.end());
  const double low = std::min(0.0f, *least), high = std::max(0.0f, *most);
  const double scale = bits == 8 ? std::max(-low, high) / 127 : (high - low) / 15;
  if (scale == 0) return;
  const double zero = bits == 8 ? 0 : std::nearbyint(-low / scale);
  for (float& w : group) {
    const double value = std::nearbyint(w / scale) + zero;
    w = static_cast<float>(scale * ((bits == 8 ? value : std::clamp(value, 0.0, 15.0)) - zero));
  }
}

bool is_layer_matrix(std::string_view name) {
  for (const char* end : {"_proj.weight", "fc1.weight", "fc2.weight", "project_in.weight", "project_out.weight",
                          "c_attn.weight", "c_fc.weight"}) {
    if (name.ends_with(end)) return true;
  }
  return false;
}

// GPT-2 stores a column an output, where all others have a row.
bool is_transposed(std::string_view name) {
  return name.find(".c_") != std::string_view::npos;
}

std::vector<float> transposed(const std::vector<float>& values, std::size_t rows, std::size_t columns) {
  std::vector<float> out(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) out[i % columns * rows + i / columns] = values[i];
  return out;
}

void round_rows(std::vector<float>& values, std::size_t columns, int bits, std::size_t group_size) {
  const std::size_t group = group_size == 0 ? columns : group_size;
  for (std::size_t row = 0; row < values.size(); row += columns) {
    for (std::size_t begin = 0; begin < columns; begin += group) {
      round_group({values.data() + row + begin, std::min(group, columns - begin)}, bits);
    }
  }
}

void copy_configs(const fs::path& from, const fs::path& to, const char* dtype) {
  auto config = nlohmann::json::parse(read_file(from / "config.json"));
  config[config.contains("torch_dtype") ? "torch_dtype" : "dtype"] = dtype;
  write_file(to / "config.json", config.dump(2));
  fs::copy_file(from / "generation_config.json", to / "generation_config.json", fs::copy_options::overwrite_existing);
}

}  // namespace

std::vector<std::string> golden_model_names(std::string_view plugin) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(models_folder())) {
    const std::string name = entry.path().filename();
    if (plugin.empty() || plugin == plugin_of(entry.path())) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

GoldenModel read_golden_model(const std::string& name) {
  GoldenModel out;
  out.name = name;
  out.folder = models_folder() / name;
  out.plugin = plugin_of(out.folder);
  const SafetensorsFile file(out.folder / "expected.safetensors");
  out.vocab_size = file.tensors().at("logits").shape.at(1);
  out.prompt = values<std::int64_t, std::int32_t>(file, "prompt", Dtype::kI64);
  out.positions = values<std::int64_t>(file, "positions", Dtype::kI64);
  out.logits = values<float>(file, "logits", Dtype::kF32);
  out.logits_bf16 = values<float>(file, "logits_bf16", Dtype::kF32);
  out.greedy = values<std::int64_t, std::int32_t>(file, "greedy", Dtype::kI64);
  out.greedy_logprobs = values<float>(file, "greedy_logprobs", Dtype::kF32);
  return out;
}

void write_bf16_copy(const fs::path& from, const fs::path& to) {
  const Checkpoint checkpoint = Checkpoint::open(from);
  std::vector<TensorToWrite> tensors;
  for (const auto& [name, view] : checkpoint.tensors())
    tensors.push_back({name, "BF16", view.shape, rounded_to_bf16(view)});
  write_file(to / "model.safetensors", safetensors_bytes(tensors));
  copy_configs(from, to, "bfloat16");
}

void write_rounded_copy(const fs::path& from, const fs::path& to, int bits, std::size_t group_size) {
  const Checkpoint checkpoint = Checkpoint::open(from);
  std::vector<TensorToWrite> tensors;
  for (const auto& [name, view] : checkpoint.tensors()) {
    std::vector<float> values = widened(view);
    if (is_layer_matrix(name)) {
      const auto rows = static_cast<std::size_t>(view.shape.at(0)),
                 columns = static_cast<std::size_t>(view.shape.at(1));
      if (is_transposed(name)) {
        values = transposed(values, rows, columns);
        round_rows(values, rows, bits, group_size);
        values = transposed(values, columns, rows);
      } else {
        round_rows(values, columns, bits, group_size);
      }
    }
    tensors.push_back(
        {name, "F32", view.shape, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)}});
  }
  write_file(to / "model.safetensors", safetensors_bytes(tensors));
  copy_configs(from, to, "float32");
}

}  // namespace mortise::test

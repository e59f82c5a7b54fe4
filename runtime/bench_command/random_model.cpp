#include "bench_command/random_model.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "environment.hpp"
#include "error.hpp"

namespace mortise::bench {
namespace {

constexpr std::size_t kPatternBytes = std::size_t{4} << 20;
constexpr std::size_t kBf16Bytes = 2;

std::uint16_t to_bf16(float value) {
  // Truncates, since random numbers need no rounding.
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
}

std::size_t bytes_of(const TensorShape& tensor) {
  std::size_t bytes = kBf16Bytes;
  for (const std::int64_t extent : tensor.shape) bytes *= static_cast<std::size_t>(extent);
  return bytes;
}

// Repeats the same kPatternBytes of random numbers over at least `bytes` of address space.
class RepeatedPattern {
 public:
  explicit RepeatedPattern(std::size_t bytes) : bytes_((bytes / kPatternBytes + 1) * kPatternBytes) {
    const int file = ::memfd_create("mortise-weights", MFD_CLOEXEC);
    if (file < 0 || ::ftruncate(file, kPatternBytes) != 0) fail("random weights: {}", std::strerror(errno));
    void* space = ::mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    bool mapped = space != MAP_FAILED;
    for (std::size_t at = 0; mapped && at < bytes_; at += kPatternBytes) {
      mapped = ::mmap(static_cast<std::byte*>(space) + at, kPatternBytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED;
    }
    ::close(file);
    if (!mapped) fail("random weights: no {} MiB of address space ({})", bytes_ >> 20, std::strerror(errno));
    memory_ = static_cast<std::byte*>(space);
    std::memcpy(memory_, random_bf16(kPatternBytes / kBf16Bytes).data(), kPatternBytes);
  }
  ~RepeatedPattern() { ::munmap(memory_, bytes_); }
  RepeatedPattern(const RepeatedPattern&) = delete;
  RepeatedPattern& operator=(const RepeatedPattern&) = delete;

  const std::byte* data() const { return memory_; }

 private:
  std::size_t bytes_;
  std::byte* memory_ = nullptr;
};

struct RandomWeights {
  explicit RandomWeights(const std::vector<TensorShape>& tensors) : pattern(largest(tensors) + kPatternBytes) {
    for (const TensorShape& tensor : tensors) {
      if (tensor.shape.size() == 1) ones.resize(std::max(ones.size(), bytes_of(tensor) / kBf16Bytes), to_bf16(1.0f));
    }
  }

  static std::size_t largest(const std::vector<TensorShape>& tensors) {
    std::size_t bytes = 0;
    for (const TensorShape& tensor : tensors) bytes = std::max(bytes, bytes_of(tensor));
    return bytes;
  }

  TensorView view(const TensorShape& tensor) const {
    TensorView view{.dtype = Dtype::kBf16, .dtype_name = "BF16", .shape = tensor.shape, .bytes = {}};
    if (tensor.shape.size() == 1) {
      view.bytes = {reinterpret_cast<const std::byte*>(ones.data()), bytes_of(tensor)};
    } else {
      constexpr std::size_t kAlignment = 64;
      const std::size_t at = std::hash<std::string>()(tensor.name) % kPatternBytes / kAlignment * kAlignment;
      view.bytes = {pattern.data() + at, bytes_of(tensor)};
    }
    return view;
  }

  RepeatedPattern pattern;
  std::vector<std::uint16_t> ones;
};

struct Weights {
  std::shared_ptr<const RandomWeights> memory;
  TensorMap tensors;
};

Weights make_weights(const ModelShape& shape) {
  const std::vector<TensorShape> shapes = tensors_of(shape);
  Weights weights{std::make_shared<const RandomWeights>(shapes), {}};
  for (const TensorShape& tensor : shapes) weights.tensors.emplace(tensor.name, weights.memory->view(tensor));
  return weights;
}

// Makes the checkpoint from the config.json of the folder.
Checkpoint make_checkpoint(const ModelShape& shape, const std::filesystem::path& folder) {
  Weights weights = make_weights(shape);
  return Checkpoint::from_memory(std::string(shape.name), read_model_config(folder, "bfloat16"),
                                 std::move(weights.tensors), std::move(weights.memory));
}

double gib(std::uint64_t bytes) {
  return static_cast<double>(bytes) / (1 << 30);
}

void write_safetensors(const std::filesystem::path& path, const TensorMap& tensors) {
  std::string header = "{";
  std::size_t begin = 0;
  for (const auto& [name, view] : tensors) {
    std::string extents;
    for (const std::int64_t extent : view.shape) extents += fmt::format("{}{}", extents.empty() ? "" : ", ", extent);
    header += fmt::format("{}\"{}\": {{\"dtype\": \"{}\", \"shape\": [{}], \"data_offsets\": [{}, {}]}}",
                          begin == 0 ? "" : ", ", name, view.dtype_name, extents, begin, begin + view.bytes.size());
    begin += view.bytes.size();
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');  // aligns the tensors
  const std::uint64_t length = header.size();

  std::ofstream stream(path, std::ios::binary);
  stream.write(reinterpret_cast<const char*>(&length), sizeof length);
  stream << header;
  for (const auto& [name, view] : tensors) {
    stream.write(reinterpret_cast<const char*>(view.bytes.data()), static_cast<std::streamsize>(view.bytes.size()));
  }
  stream.flush();
  if (!stream) {
    fail("{}: {} MiB of random weights cannot be written; is the disk full? (TMPDIR can name another folder)",
         path.native(), begin >> 20);
  }
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  const std::string base = environment::temporary_folder();
  std::string name = base + "/mortise-bench-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) {
    fail("{}: no folder can be made there ({}); TMPDIR can name another place", base, std::strerror(errno));
  }
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::vector<std::uint16_t> random_bf16(std::size_t count) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0f, 0.02f);
  std::vector<std::uint16_t> numbers(count);
  for (std::uint16_t& number : numbers) number = to_bf16(normal(random));
  return numbers;
}

ModelFiles make_random_model(const ModelShape& shape) {
  const TemporaryFolder folder;
  write_model_description(shape, folder.path());
  return {make_checkpoint(shape, folder.path()), Tokenizer::load(folder.path())};
}

Tokenizer make_tokenizer(const ModelShape& shape) {
  const TemporaryFolder folder;
  write_model_description(shape, folder.path());
  return Tokenizer::load(folder.path());
}

ModelFiles make_random_draft(ModelShape shape, Tokenizer target) {
  shape.vocab_size = static_cast<std::int64_t>(target.vocab_size());
  const TemporaryFolder folder;
  write_model_description(shape, folder.path());
  return {make_checkpoint(shape, folder.path()), std::move(target)};
}

std::uint64_t check_fits_memory(const ModelShape& shape, const nlohmann::json& model_options,
                                std::uint64_t available_bytes) {
  const auto has = [&](const char* option, const char* value) {
    const auto found = model_options.find(option);
    return found != model_options.end() && *found == value;
  };
  const int float_bits = has("dtype", "f32") ? 32 : 16;
  const bool eight = has("weights", "int8") || has("weights", "int8-block32") || has("weights", "fp8");
  const bool four = has("weights", "int4") || has("weights", "int4-block32") || has("weights", "mxfp4");
  const int bits = eight ? 8 : four ? 4 : float_bits;
  // The head becomes integers of 8 bits or E4M3 with the layers, and stays as it is beside MXFP4.
  const int head_bits = bits == float_bits || has("weights", "mxfp4") ? float_bits : 8;
  const std::uint64_t needed = device_bytes_of(shape, bits, head_bits, float_bits);
  if (needed <= available_bytes) return needed;
  const char* fewer = bits > 8   ? ", or --set model.weights=int8 (or int4)"
                      : bits > 4 ? ", or --set model.weights=int4"
                                 : "";
  fail("--shape {}: its weights take {:.1f} GiB, and {:.1f} GiB of memory are free; use a smaller shape{}", shape.name,
       gib(needed), gib(available_bytes), fewer);
}

void check_draft_fits_memory(const ModelShape& shape, std::uint64_t available_bytes) {
  const std::uint64_t needed = device_bytes_of(shape, 16, 16, 16);
  if (needed <= available_bytes) return;
  fail(
      "--draft-shape {}: its weights take {:.1f} GiB, and {:.1f} GiB of memory are free beside the target's; use a "
      "smaller shape",
      shape.name, gib(needed), gib(available_bytes));
}

void write_random_model(const ModelShape& shape, const std::filesystem::path& folder) {
  write_model_description(shape, folder);
  write_safetensors(folder / "model.safetensors", make_weights(shape).tensors);
}

}  // namespace mortise::bench

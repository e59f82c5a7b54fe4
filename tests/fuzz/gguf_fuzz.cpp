// A GGUF model. Input: the bytes of the file, to which the target adds zeros, so that the tensors of a small seed have
// data. What runs: the container, the checkpoint with its fingerprint, rows of its tensors as floats and as integers,
// the model's configuration, and the tokenizer.
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/gguf/floats.hpp"
#include "error.hpp"
#include "fuzz_input.hpp"
#include "models/llama/config.hpp"
#include "models/llama/rope.hpp"
#include "mortise/plugin.hpp"
#include "tokenizer/tokenizer.hpp"

namespace {

using mortise::fuzz::require;

constexpr std::size_t kZeros = 1 << 19;
constexpr std::size_t kMaxTensorBytes = 1 << 20;  // an input of a few bytes has no larger one, but a found one might

void read_tensor(const mortise::Checkpoint& checkpoint, const std::string& name, const mortise::TensorView& view) {
  if (view.bytes.size() > kMaxTensorBytes) return;
  require(view.gguf.has_value());
  for (const mortise::Dtype type : {mortise::Dtype::kBf16, mortise::Dtype::kF32}) {
    const mortise::GgufFloats floats = mortise::gguf_floats(view, type);
    std::uint64_t elements = 1;
    for (const std::int64_t extent : floats.view.shape) elements *= static_cast<std::uint64_t>(extent);
    require(floats.view.bytes.size() == elements * mortise::dtype_size(floats.view.dtype));
  }
  const auto matrix = checkpoint.find_quantized(name);
  if (!matrix) return;
  const auto size = static_cast<std::size_t>(matrix->rows() * matrix->columns());
  std::vector<std::uint8_t> values(size), zeros(size);
  std::vector<float> scales(size);
  matrix->read(0, matrix->rows(), values.data(), scales.data(), zeros.data());
}

void open_model(const std::filesystem::path& path) {
  try {
    const auto checkpoint = mortise::Checkpoint::open(path);
    checkpoint.fingerprint();
    for (const auto& [name, view] : checkpoint.tensors()) read_tensor(checkpoint, name, view);
    const mortise::llama::Config config = mortise::llama::parse_config(checkpoint.config().json);
    mortise::llama::inverse_frequencies(config.rope, config.head_dim);
  } catch (const mortise::Error& error) {
    require(*error.what() != '\0');
  } catch (const mortise::Failure&) {  // the plugin refuses the configuration
  }
}

void open_tokenizer(const std::filesystem::path& path) {
  try {
    const auto tokenizer = mortise::Tokenizer::load(path);
    const std::string text = "A text: caf\xc3\xa9, 123 \xe2\x96\x81 <s>\n  end";
    const auto ids = tokenizer.encode(text, true);
    tokenizer.decode(ids, false);
  } catch (const mortise::Error& error) {
    require(*error.what() != '\0');
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const mortise::fuzz::ScratchFolder folder;
  folder.write("x.gguf", mortise::fuzz::text_of(data, size), kZeros);
  open_model(folder.path() / "x.gguf");
  open_tokenizer(folder.path() / "x.gguf");
  return 0;
}

#include <fmt/format.h>
#include <xxhash.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "checkpoint/checkpoint.hpp"

namespace mortise {
namespace {

constexpr std::size_t kPieceBytes = 4096;
constexpr std::size_t kNumPieces = 4;

class Hasher {
 public:
  Hasher() : state_(XXH64_createState(), &XXH64_freeState) { XXH64_reset(state_.get(), 0); }

  void add(const void* data, std::size_t size) { XXH64_update(state_.get(), data, size); }
  void add(std::uint64_t value) { add(&value, sizeof value); }
  // The length goes first, so that two fields never run together.
  void add(std::string_view text) {
    add(text.size());
    add(text.data(), text.size());
  }
  std::uint64_t digest() const { return XXH64_digest(state_.get()); }

 private:
  std::unique_ptr<XXH64_state_t, XXH_errorcode (*)(XXH64_state_t*)> state_;
};

void add_description(Hasher& hasher, const std::string& name, const TensorView& view) {
  hasher.add(name);
  hasher.add(view.dtype_name);
  hasher.add(view.shape.size());
  for (const std::int64_t extent : view.shape) hasher.add(static_cast<std::uint64_t>(extent));
  hasher.add(view.bytes.size());
}

void add_sample(Hasher& hasher, std::span<const std::byte> bytes) {
  if (bytes.size() <= kPieceBytes * kNumPieces) {
    hasher.add(bytes.data(), bytes.size());
    return;
  }
  const std::size_t last = bytes.size() - kPieceBytes;
  for (std::size_t i = 0; i < kNumPieces; ++i) {
    // last * i overflows at 2^62 bytes, which no file has; last / 3 * i would miss the end.
    hasher.add(bytes.data() + last * i / (kNumPieces - 1), kPieceBytes);
  }
}

std::string config_without_origin(const std::string& text) {
  nlohmann::json config = nlohmann::json::parse(text);
  config.erase("transformers_version");
  config.erase("_name_or_path");
  return config.dump();
}

}  // namespace

std::uint64_t Checkpoint::fingerprint() const {
  Hasher hasher;
  hasher.add(config_without_origin(config_.json));
  for (const auto& [name, view] : tensors_) {
    add_description(hasher, name, view);
    add_sample(hasher, view.bytes);
  }
  return hasher.digest();
}

// The files say that the weights are the same ones; which tensors they are, and out of which file each is taken where
// two have one of its name, is config.json's and the index's to say.
std::optional<std::string> Checkpoint::identity() const {
  if (files_.empty()) return std::nullopt;
  Hasher hasher;
  hasher.add(config_without_origin(config_.json));
  for (const auto& [name, view] : tensors_) {
    add_description(hasher, name, view);
    for (std::size_t i = 0; i < files_.size(); ++i) {
      const auto found = files_[i].tensors().find(name);
      if (found != files_[i].tensors().end() && found->second.bytes.data() == view.bytes.data()) hasher.add(i);
    }
  }
  std::string all = fmt::format("{:016x}", hasher.digest());
  for (const SafetensorsFile& file : files_) {
    if (!file.identity()) return std::nullopt;
    all += ' ';
    all += *file.identity();
  }
  return all;
}

}  // namespace mortise

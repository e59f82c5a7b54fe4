#include "devices/cpu/weight_cache.hpp"

#include <algorithm>

#include "devices/cpu/cpu_device.hpp"
#include "devices/cpu/temporary_file.hpp"

namespace mortise::cpu {
namespace {

// Names the orders of linear/pack.hpp and linear_int/pack.hpp, the quantisation, and the parts of a weight's memory.
// Increment the number with every change to one of them: older files are then written anew. A test knows the bytes.
constexpr char kLayout[] = "cpu-pack/1";

constexpr char kPrefix[] = "mortise-cpu-";
constexpr char kExtension[] = ".packed";
constexpr std::size_t kLine = 64;

std::size_t whole_lines(std::size_t bytes) {
  return (bytes + kLine - 1) / kLine * kLine;
}

std::string part_text(const mortise_tensor& part) {
  std::string text = ' ' + std::to_string(part.dtype) + ':';
  for (int i = 0; i < std::clamp(part.ndim, 0, 2); ++i) {
    text += std::to_string(part.shape[i]) + '/' + std::to_string(part.stride[i]) + ',';
  }
  return text;
}

}  // namespace

// A problem with the file, even a lack of memory, must not fail a start that would succeed without the file.
void WeightCache::open(const mortise_weight_cache_args& args, ThreadPool& pool) {
  if (!enabled_) return;
  end();
  try {
    const std::filesystem::path folder(view(args.folder));
    path_ = folder / (kPrefix + std::string(view(args.format)) + kExtension);
    identity_ = kLayout + std::string(1, '\0') + std::string(view(args.format)) + '\0';
    identity_ += view(args.identity);
    open_ = true;
    remove_leftovers(folder, kPrefix, kExtension);
    file_ = PackedFile::open(path_, identity_, pool);
  } catch (const std::exception& error) {
    warn(error, open_ ? "it is not used; a new one will be written" : "no file of packed weights is used");
  }
}

void WeightCache::close(bool loaded, ThreadPool& pool) {
  if (!open_) return;
  struct End {
    ~End() { cache->end(); }
    WeightCache* cache;
  } const at_end{this};
  const bool complete =
      std::all_of(kept_.begin(), kept_.end(), [](const Kept& kept) { return kept.weight->file != nullptr; });
  if (!loaded || complete) return;
  try {
    std::vector<PackedWeight> weights;
    for (Kept& kept : kept_) {
      weights.push_back({std::move(kept.key), {static_cast<const std::byte*>(kept.weight->data), kept.bytes}});
    }
    write_packed_file(path_, identity_, weights, pool);
  } catch (const std::exception& error) {
    warn(error, "the next start packs the weights again (packed_cache = false: never keep them)");
  }
}

void WeightCache::end() noexcept {
  open_ = false;
  kept_.clear();
  file_ = nullptr;  // weights in the file keep it alive
}

std::string WeightCache::key_of(const mortise_weight_source& source, const mortise_weight& weight) const {
  if (!open_ || source.name.size == 0) return {};
  std::string key(view(source.name));
  for (const std::int64_t value :
       {std::int64_t{weight.use}, std::int64_t{weight.dtype}, weight.n, weight.k, std::int64_t{weight.bits},
        static_cast<std::int64_t>(weight.group_size), std::int64_t{weight.value_type}}) {
    key += ' ';
    key += std::to_string(value);
  }
  if (weight.value_type == MORTISE_I8_BLOCK32) {
    key += " zero " + std::to_string(weight.zero);
    key += weight.has_minima ? " minima" : "";
    key += weight.half_scales ? " f16" : "";
  }
  for (int i = 0; i < source.num_parts; ++i) {
    key += source.quantized != nullptr ? " q" + std::to_string(source.quantized[i]->n) : part_text(*source.parts[i]);
  }
  return key;
}

bool WeightCache::find(const std::string& key, mortise_weight& weight, std::size_t bytes) const {
  if (file_ == nullptr || key.empty()) return false;
  const std::span<const std::byte> found = file_->find(key);
  if (found.size() != whole_lines(bytes)) return false;
  weight.data = const_cast<std::byte*>(found.data());  // no code writes to a complete weight
  weight.file = file_;
  return true;
}

void WeightCache::keep(std::string key, const mortise_weight& weight, std::size_t bytes) {
  if (key.empty() || std::any_of(kept_.begin(), kept_.end(), [&](const Kept& k) { return k.key == key; })) return;
  kept_.push_back({std::move(key), &weight, whole_lines(bytes)});
}

void WeightCache::forget(const mortise_weight& weight) {
  std::erase_if(kept_, [&](const Kept& kept) { return kept.weight == &weight; });
}

void WeightCache::warn(const std::exception& error, const char* consequence) const noexcept {
  if (host_ == nullptr) return;
  try {
    // The text names the file: a Failure already does, exceptions of the library do not.
    std::string text;
    if (dynamic_cast<const Failure*>(&error) == nullptr) text.append(path_.native()).append(": ");
    text.append(error.what()).append("; ").append(consequence);
    host_->log(host_, MORTISE_LOG_WARNING, view(std::string_view(text)));
  } catch (const std::exception&) {  // no memory for the message
    host_->log(host_, MORTISE_LOG_WARNING, view(std::string_view(consequence)));
  }
}

}  // namespace mortise::cpu

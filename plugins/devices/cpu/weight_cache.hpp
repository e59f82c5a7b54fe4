// plugins/devices/cpu/weight_cache.hpp: while a model is loaded, takes its weights from a file if they are in one, and
// writes them to a file if not (mortise/ext/weight_cache.h). Used by the loading thread.
#pragma once

#include <cstddef>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "devices/cpu/packed_file.hpp"
#include "mortise/ext/weight_cache.h"
#include "mortise/plugin.hpp"

namespace mortise::cpu {

// The file of one model while it loads. Invariant: kept_ has only complete weights that are not freed. Used by the
// loading thread.
class WeightCache {
 public:
  // `host` takes the warnings about unusable files; it may be null.
  WeightCache(bool enabled, const mortise_host* host) : enabled_(enabled), host_(host) {}

  bool enabled() const { return enabled_; }
  // In these two functions any problem with the file only gives a warning, and loading continues without it.
  void open(const mortise_weight_cache_args& args, ThreadPool& pool);
  void close(bool loaded, ThreadPool& pool);

  // Returns the key of a weight, made from its description without the data. Empty: the weight is not cached.
  std::string key_of(const mortise_weight_source& source, const mortise_weight& weight) const;
  // Points the weight to its data if the file has `bytes` bytes under the key.
  bool find(const std::string& key, mortise_weight& weight, std::size_t bytes) const;
  // Declares a complete weight: close() writes its `bytes` to the file, unless it is freed before.
  void keep(std::string key, const mortise_weight& weight, std::size_t bytes);
  void forget(const mortise_weight& weight);

 private:
  struct Kept {
    std::string key;
    const mortise_weight* weight;
    std::size_t bytes;
  };
  void end() noexcept;
  void warn(const std::exception& error, const char* consequence) const noexcept;

  const bool enabled_;
  const mortise_host* const host_;
  bool open_ = false;
  std::filesystem::path path_;
  std::string identity_;
  std::shared_ptr<const PackedFile> file_;
  std::vector<Kept> kept_;
};

}  // namespace mortise::cpu

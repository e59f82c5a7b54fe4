// weight_cache.hpp: the weights of a model that is being loaded, out of a file where one has them, and into it where
// not (mortise/ext/weight_cache.h). Used by the thread that loads.
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

class WeightCache {
 public:
  // `host` may be null: then nobody is told of files that cannot be used.
  WeightCache(bool enabled, const mortise_host* host) : enabled_(enabled), host_(host) {}

  bool enabled() const { return enabled_; }
  // Whatever goes wrong with the file in these two is a warning, and loading goes on as without it.
  void open(const mortise_weight_cache_args& args, ThreadPool& pool);
  void close(bool loaded, ThreadPool& pool);

  // The key of a weight that is described but for its data; empty: it is not kept.
  std::string key_of(const mortise_weight_source& source, const mortise_weight& weight) const;
  // Gives the weight its data if the file has `bytes` of that key.
  bool find(const std::string& key, mortise_weight& weight, std::size_t bytes) const;
  // The weight is complete: its `bytes` go into the file at close, unless it is freed before.
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

// runtime/hasher.hpp: the hash of fingerprints: 128-bit XXH3 over a sequence of fields. It detects accidents, not
// forgeries. A library that includes this links libxxhash.
#pragma once

#include <fmt/format.h>
#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace mortise {

// Hashes a sequence of fields. Invariant: different sequences of fields give different input to the hash. Used by one
// thread.
class Hasher {
 public:
  Hasher() : state_(XXH3_createState(), &XXH3_freeState) { XXH3_128bits_reset(state_.get()); }

  void add(const void* data, std::size_t size) { XXH3_128bits_update(state_.get(), data, size); }
  void add(std::uint64_t value) { add(&value, sizeof value); }
  // Adds the length first, so that two fields differ from two others with the same concatenation.
  void add(std::string_view text) {
    add(std::uint64_t{text.size()});
    add(text.data(), text.size());
  }
  // Returns the hash as 32 hexadecimal digits.
  std::string hex() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  }

 private:
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state_;
};

inline std::string hash_of(std::string_view text) {
  Hasher hasher;
  hasher.add(text);
  return hasher.hex();
}

}  // namespace mortise

// runtime/plugin_index/trusted_keys.hpp: the public keys whose plugins the operator lets `mortise plugin install` take:
// one PEM file each in a folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plugin_index/signature.hpp"

namespace mortise {

// Reads the folder anew at each call. Used by one thread at a time. Invariant: the folder's name never changes.
class TrustedKeys {
 public:
  explicit TrustedKeys(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // Returns trusted_keys below the configuration folder: $XDG_CONFIG_HOME/mortise, ~/.config/mortise. Throws an Error
  // if there is no such folder, because no home is known.
  static TrustedKeys standard();

  const std::filesystem::path& folder() const { return folder_; }

  // Returns the keys with their files, sorted by file name; none if the folder does not exist. A file *.pem without a
  // key is left out, and named in `broken`, if that is not null, with the reason.
  std::vector<std::pair<std::filesystem::path, PublicKey>> list(std::vector<std::string>* broken = nullptr) const;
  std::optional<PublicKey> find(const std::string& id) const;
  // Writes the key's file, named after its id, and returns its path. Does nothing if the key is there.
  std::filesystem::path add(const PublicKey& key) const;
  // Removes every file with this key and returns their paths. Throws an Error if no key has this id.
  std::vector<std::filesystem::path> remove(const std::string& id) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace mortise

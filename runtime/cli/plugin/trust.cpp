// runtime/cli/plugin/trust.cpp: `mortise plugin trust`: sets whose plugins `plugin install` takes.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/plugin/commands.hpp"
#include "cli/plugin/index_options.hpp"
#include "error.hpp"
#include "plugin_index/trusted_keys.hpp"
#include "plugin_index/whole_file.hpp"

namespace mortise {
namespace {

struct TrustOptions {
  std::string file, removed;
};

PublicKey read_key(const std::string& file) {
  const std::string pem = read_whole_file(file, kMaxKeyBytes);
  try {
    return parse_public_key(pem);
  } catch (const Error& error) {
    fail("{}: {}", file, error.what());
  }
}

void list_keys(const TrustedKeys& trusted) {
  std::vector<std::string> broken;
  const auto keys = trusted.list(&broken);
  for (const auto& [path, key] : keys) fmt::print("{}  {}\n", key.id(), path.string());
  for (const std::string& reason : broken) fmt::print(stderr, "not used, repair or remove it: {}\n", reason);
  if (keys.empty()) fmt::print(stderr, "no key is trusted; `mortise plugin trust KEY.pem` adds one\n");
}

void trust(const TrustOptions& options) {
  const TrustedKeys trusted = TrustedKeys::standard();
  if (!options.removed.empty()) {
    for (const auto& path : trusted.remove(options.removed)) fmt::print("no longer trusted: {}\n", path.string());
  }
  if (options.file.empty()) {
    if (options.removed.empty()) list_keys(trusted);
    return;
  }
  const PublicKey key = read_key(options.file);
  fmt::print("trusted: {}  {}\n", key.id(), trusted.add(key).string());
}

}  // namespace

void add_plugin_trust_command(CLI::App& plugin) {
  CLI::App* command = plugin.add_subcommand("trust", "list, add or remove the keys whose plugins may be installed");
  auto options = std::make_shared<TrustOptions>();
  command->add_option("key", options->file, "PEM file with the public key to trust (default: lists the trusted keys)")
      ->check(kNotEmpty);
  command->add_option("--remove", options->removed, "id of a key that is no longer trusted")->check(kNotEmpty);
  command->callback([options] { trust(*options); });
}

}  // namespace mortise

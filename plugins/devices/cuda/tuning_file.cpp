#include "devices/cuda/tuning_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "devices/checks/environment.hpp"
#include "nlohmann/json.hpp"

namespace mortise::cuda {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kVersion = 1;
constexpr std::uintmax_t kMaxBytes = 1 << 20;  // some thousand choices
constexpr std::int64_t kMaxSize = INT32_MAX;

std::int64_t integer(const json& entry, const char* name, std::int64_t least, std::int64_t most) {
  const json& value = entry.at(name);
  if (!value.is_number_integer() || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most) {
    throw std::runtime_error(std::string(name) + " is " + value.dump() + "; expected an integer from " +
                             std::to_string(least) + " to " + std::to_string(most));
  }
  return value.get<std::int64_t>();
}

AlgorithmChoice read_choice(const json& value) {
  if (value.is_null()) return std::nullopt;
  LtConfig config{};
  if (!value.is_array() || value.size() != config.size()) {
    throw std::runtime_error("algorithm is " + value.dump() + "; expected null or " + std::to_string(config.size()) +
                             " integers");
  }
  for (std::size_t i = 0; i < config.size(); ++i) {
    if (!value[i].is_number_integer() || value[i].get<std::int64_t>() < 0 ||
        value[i].get<std::int64_t>() > UINT16_MAX) {
      throw std::runtime_error("algorithm is " + value.dump() + "; expected integers from 0 to 65535");
    }
    config[i] = value[i].get<std::int32_t>();
  }
  return config;
}

}  // namespace

std::optional<fs::path> user_tuning_folder() {
  const std::optional<fs::path> cache = device_environment::cache_folder();
  if (!cache) return std::nullopt;
  return *cache / "mortise";
}

std::string tuning_file_name(const TuningKey& key) {
  std::string gpu;
  for (const char c : key.gpu) gpu += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '-';
  return "linear-" + gpu + "-driver" + std::to_string(key.driver) + "-cublaslt" + std::to_string(key.cublaslt) +
         ".json";
}

AlgorithmChoices read_tuning(const fs::path& path, const TuningKey& key) {
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  if (!fs::is_regular_file(path, error) || fs::file_size(path, error) > kMaxBytes) {
    throw std::runtime_error("not a regular file of at most " + std::to_string(kMaxBytes) + " bytes");
  }
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  AlgorithmChoices choices;
  try {
    const json all = json::parse(text.str());
    if (integer(all, "version", 0, INT32_MAX) != kVersion || all.at("gpu") != key.gpu ||
        all.at("driver") != key.driver || all.at("cublaslt") != key.cublaslt) {
      throw std::runtime_error("it is for another version, GPU, driver or cuBLASLt");
    }
    for (const json& entry : all.at("choices")) {
      const LinearShape shape = {integer(entry, "n", 1, kMaxSize), integer(entry, "k", 1, kMaxSize),
                                 entry.at("f32_out").get<bool>(), entry.at("bias").get<bool>(),
                                 integer(entry, "rows", 1, kMaxSize)};
      choices[shape] = read_choice(entry.at("algorithm"));
    }
  } catch (const json::exception& exception) {
    throw std::runtime_error(exception.what());
  }
  return choices;
}

void write_tuning(const fs::path& path, const TuningKey& key, const AlgorithmChoices& choices) {
  json all = {{"version", kVersion}, {"gpu", key.gpu}, {"driver", key.driver}, {"cublaslt", key.cublaslt}};
  all["choices"] = json::array();
  for (const auto& [shape, choice] : choices) {
    all["choices"].push_back({{"n", shape.n},
                              {"k", shape.k},
                              {"f32_out", shape.f32_out},
                              {"bias", shape.bias},
                              {"rows", shape.rows},
                              {"algorithm", choice ? json(*choice) : json(nullptr)}});
  }
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  // Two processes may write at the same time: each writes its own temporary file, and the last rename wins. The folder
  // of a checkpoint is not trusted, so the temporary file is newly created and no planted link is followed.
  std::string name = path.string() + ".XXXXXX";
  const int descriptor = ::mkstemp(name.data());
  if (descriptor < 0) throw std::runtime_error(std::string("cannot be written: ") + std::strerror(errno));
  ::fchmod(descriptor, 0644);
  ::close(descriptor);
  const fs::path temporary = name;
  {
    std::ofstream file(temporary);
    file << all.dump(1) << '\n';
    if (!file.flush()) {
      fs::remove(temporary, error);
      throw std::runtime_error("cannot be written");
    }
  }
  fs::rename(temporary, path, error);
  if (!error) return;
  const std::string why = error.message();
  fs::remove(temporary, error);
  throw std::runtime_error(why);
}

}  // namespace mortise::cuda

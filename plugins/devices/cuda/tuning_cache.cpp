#include "devices/cuda/tuning_cache.hpp"

#include <unistd.h>

#include <exception>
#include <utility>

#include "mortise/plugin.hpp"

namespace mortise::cuda {
namespace {

constexpr auto kWriteAfter = std::chrono::milliseconds(200);
constexpr char kNoFolder[] =
    "the chosen matrix algorithms are not kept for later starts: neither XDG_CACHE_HOME nor HOME names a folder, and "
    "the checkpoint's folder cannot be written; name one with tuning_cache = \"FOLDER\"";

}  // namespace

TuningCache::TuningCache(TuningKey key, const TuningOption& option, const mortise_host* host)
    : key_(std::move(key)), option_(option), host_(host) {
  if (!option_.enabled) return;
  const auto folder = option_.folder.empty() ? user_tuning_folder() : std::filesystem::path(option_.folder);
  if (!folder) return;
  paths_.push_back(*folder / tuning_file_name(key_));
  read(paths_.back());
}

TuningCache::~TuningCache() {
  if (unwritten_) write();
}

void TuningCache::add_checkpoint(const std::filesystem::path& folder) {
  if (!option_.enabled || !option_.folder.empty()) return;
  const std::filesystem::path path = folder / ("mortise-" + tuning_file_name(key_));
  read(path);
  if (::access(folder.c_str(), W_OK) == 0) paths_.push_back(path);
}

void TuningCache::read(const std::filesystem::path& path) {
  try {
    choices_.merge(read_tuning(path, key_));
  } catch (const std::exception& exception) {
    warn(path.string() + " is not used; a new one will be written: " + exception.what());
  }
}

std::optional<AlgorithmChoice> TuningCache::find(const LinearShape& shape) const {
  const auto found = choices_.find(shape);
  if (found == choices_.end()) return std::nullopt;
  return found->second;
}

void TuningCache::keep(const LinearShape& shape, const AlgorithmChoice& choice) {
  if (!option_.enabled) return;
  choices_[shape] = choice;
  unwritten_ = true;
  if (std::chrono::steady_clock::now() - written_at_ >= kWriteAfter) write();
}

std::string TuningCache::place() const {
  if (!option_.enabled) return "in no file: tuning_cache = false";
  return paths_.empty() ? "in no file" : "in " + paths_.front().string();
}

void TuningCache::write() {
  unwritten_ = false;
  std::string why = kNoFolder;
  std::erase_if(paths_, [&](const std::filesystem::path& path) {
    try {
      write_tuning(path, key_, choices_);
      return false;
    } catch (const std::exception& exception) {
      why = path.string() + ": the chosen algorithms are not kept: " + exception.what();
      return true;
    }
  });
  if (paths_.empty() && !std::exchange(told_, true)) warn(why);
  written_at_ = std::chrono::steady_clock::now();
}

void TuningCache::warn(const std::string& text) const {
  if (host_ != nullptr) host_->log(host_, MORTISE_LOG_WARNING, view(std::string_view(text)));
}

}  // namespace mortise::cuda

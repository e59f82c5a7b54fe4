#include "assembly/checkpoint_service.hpp"

#include <fmt/format.h>

#include <memory>

#include "execution/weight_reader.hpp"

struct mortise_checkpoint {
  explicit mortise_checkpoint(const std::filesystem::path& folder)
      : files(mortise::Checkpoint::open(folder)), weights(files), reader(weights.abi()) {}

  mortise::Checkpoint files;
  mortise::WeightReader weights;  // borrows files
  mortise_weight_reader reader;   // borrows weights
};

namespace mortise {
namespace {

mortise_status open(mortise_string_view folder, mortise_checkpoint** checkpoint, mortise_error* error) {
  *checkpoint = nullptr;
  try {
    *checkpoint = new mortise_checkpoint(std::string(folder.data, static_cast<std::size_t>(folder.size)));
    return MORTISE_OK;
  } catch (const std::exception& exception) {
    if (error != nullptr) {
      error->code = MORTISE_INVALID_ARGUMENT;
      fmt::format_to_n(error->message, sizeof error->message - 1, "{}", exception.what()).out[0] = '\0';
    }
    return MORTISE_INVALID_ARGUMENT;
  }
}

void close(mortise_checkpoint* checkpoint) {
  delete checkpoint;
}

mortise_string_view config(mortise_checkpoint* checkpoint) {
  const std::string& json = checkpoint->files.config().json;
  return {json.data(), json.size()};
}

const mortise_weight_reader* reader(mortise_checkpoint* checkpoint) {
  return &checkpoint->reader;
}

}  // namespace

const mortise_checkpoint_table* checkpoint_service() {
  static constexpr mortise_checkpoint_table kTable = {sizeof(mortise_checkpoint_table), 0, open, close, config, reader};
  return &kTable;
}

}  // namespace mortise

// runtime/checkpoint/gguf/parts.hpp: the files of a split GGUF model: NAME-00001-of-00003.gguf and its siblings. The
// first part has the keys of the model; the others have tensors and the keys split.no, split.count and
// split.tensors.count.
#pragma once

#include <filesystem>
#include <vector>

#include "checkpoint/gguf/file.hpp"

namespace mortise {

// Opens the file, and all further parts if it is the first of several. Throws an Error if a part is missing, damaged,
// of another model's split, or has a tensor that an earlier part has, and if `path` is not the first part.
std::vector<GgufFile> open_gguf_parts(const std::filesystem::path& path);

}  // namespace mortise

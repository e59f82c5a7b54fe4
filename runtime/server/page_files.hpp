// runtime/server/page_files.hpp: the files of runtime/server/page/, which are built into the program.
#pragma once

#include <span>
#include <string_view>

namespace mortise {

struct PageFile {
  std::string_view name, content;
};

std::span<const PageFile> page_files();

}  // namespace mortise

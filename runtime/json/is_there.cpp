#include "json/is_there.hpp"

#include <system_error>

#include "error.hpp"

namespace mortise {

bool is_there(const std::filesystem::path& path) {
  std::error_code error;
  const bool there = std::filesystem::exists(path, error);
  if (error) fail("{}: cannot be examined: {}; check its permissions and links", path.native(), error.message());
  return there;
}

}  // namespace mortise

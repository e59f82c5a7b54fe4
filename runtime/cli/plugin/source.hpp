// runtime/cli/plugin/source.hpp: reads the files of a plugin index, from a web server or from a folder of this machine.
#pragma once

#include <cstddef>
#include <string>

namespace mortise {

// Returns the bytes of an http or https url, a file: url, or a path. Follows up to five redirections, and none from
// https to http. Throws an Error that begins with the location if it cannot be reached, if it has no such file, if it
// sends more than `limit` bytes, or if it sends nothing for 30 seconds.
std::string read_source(const std::string& location, std::size_t limit, const std::string& ca_file);

// Return the location of the file `name` in the folder, or beside the file, at `location`.
std::string inside(const std::string& location, const std::string& name);
std::string beside(const std::string& location, const std::string& name);

}  // namespace mortise

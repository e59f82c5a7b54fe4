// runtime/cli/plugin/project.hpp: writes a plugin project from the templates of plugin_api/templates.
//
// A template is a file whose name ends in ".in". `project/` has the files of every project; KIND/cpp or KIND/c has the
// sources, and KIND itself what belongs to the kind in either language. In names and texts @WORD@ is replaced.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace mortise {

enum class ProjectLanguage { kC, kCxx };

struct PluginProject {
  std::string kind;  // device, model, attention, proposer or scheduler
  std::string name;  // of the component, the file and the CMake target
  ProjectLanguage language = ProjectLanguage::kCxx;
  std::filesystem::path folder;  // the folder to write the project into; made if it does not exist
};

// Returns the templates of the installed program (share/mortise/templates) or of the source tree. Throws an Error that
// names both places if there are none.
std::filesystem::path templates_folder();

// Writes the project. Throws an Error if there is no such kind, if the name cannot be that of a component, a CMake
// target and a Lua global, if the folder is not empty, or if a file cannot be written; then nothing is left of the
// project. Returns the paths of the written files, relative to the folder and sorted.
std::vector<std::filesystem::path> write_project(const PluginProject& project,
                                                 const std::filesystem::path& templates = templates_folder());

}  // namespace mortise

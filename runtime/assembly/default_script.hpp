// runtime/assembly/default_script.hpp: checkpoint folders in the place of a pipeline script. Every front end takes its
// pipelines from load_pipelines, so that a folder may stand wherever a script may.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "loader/catalog.hpp"
#include "pipeline/pipeline_script.hpp"

namespace mortise {

// A script of one pipeline for each folder, as a person would write it: the parts of choose_default_parts, and the
// folders as absolute paths. Several pipelines are named after their folders, with as many of the parents' names as
// make them different. Throws an Error that names the folder. REQUIRES: at least one folder.
std::string default_script(std::span<const std::filesystem::path> folders, const PluginCatalog& catalog);

// The pipelines of what a user names: nothing (the embedded demo), one script, or checkpoint folders, whose script is
// made and loaded like any other: its errors name its lines. Throws an Error that says what is wrong with the names.
PipelineScript load_pipelines(std::span<const std::string> names, const PluginCatalog& catalog);

}  // namespace mortise

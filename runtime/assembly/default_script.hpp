// runtime/assembly/default_script.hpp: makes pipeline scripts for checkpoints, which are folders or GGUF files. Every
// front end gets its pipelines from load_pipelines, so a checkpoint is accepted wherever a script is.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "loader/catalog.hpp"
#include "pipeline/pipeline_script.hpp"

namespace mortise {

// Makes a script with one pipeline for each folder, as a person would write it: the parts of choose_default_parts, and
// the folders as absolute paths. Several pipelines are named after their folders, preceded by as many parent folders as
// make the names different. Throws an Error that names the folder. REQUIRES: at least one folder.
std::string default_script(std::span<const std::filesystem::path> folders, const PluginCatalog& catalog);

// The pipelines for the names that a user gives: none (the embedded demo), one script, or checkpoints. The
// script for folders is generated and loaded like any other, so errors name its lines. Throws an Error that says what
// is wrong with the names.
PipelineScript load_pipelines(std::span<const std::string> names, const PluginCatalog& catalog);

}  // namespace mortise

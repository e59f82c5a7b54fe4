// runtime/bench_command/pipeline_files.hpp: writes a pipeline to files, for scenarios that run other processes.
#pragma once

#include <filesystem>
#include <memory>

#include "bench_command/random_model.hpp"
#include "bench_command/subject.hpp"

namespace mortise::bench {

// The script for the processes, and everything that must live as long as they are started.
struct PipelineFiles {
  TemporaryFolder folder;
  std::filesystem::path script, model;
};

// For a shape, also writes its weights. Throws an Error.
std::shared_ptr<const PipelineFiles> write_pipeline_files(const SubjectChoice& choice);

}  // namespace mortise::bench

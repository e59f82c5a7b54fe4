// runtime/bench_command/pipeline_files.hpp: a pipeline as files, for scenarios that run other processes.
#pragma once

#include <filesystem>
#include <memory>

#include "bench_command/random_model.hpp"
#include "bench_command/subject.hpp"

namespace mortise::bench {

// The script that the processes run, and what has to live as long as they are started.
struct PipelineFiles {
  TemporaryFolder folder;
  std::filesystem::path script, model;
};

// With a shape, its weights are written too. Throws an Error.
std::shared_ptr<const PipelineFiles> write_pipeline_files(const SubjectChoice& choice);

}  // namespace mortise::bench

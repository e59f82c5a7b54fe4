#include "bench_command/pipeline_files.hpp"

#include <fstream>

#include "bench_command/script_text.hpp"
#include "error.hpp"
#include "loader/catalog.hpp"

namespace mortise::bench {

std::shared_ptr<const PipelineFiles> write_pipeline_files(const SubjectChoice& choice) {
  const auto files = std::make_shared<PipelineFiles>();
  SubjectChoice with_model = choice;
  if (choice.shape != nullptr) {
    files->model = files->folder.path() / "model";
    std::filesystem::create_directory(files->model);
    write_random_model(*choice.shape, files->model);
    with_model.settings.push_back({"model", "path", files->model.string()});
  }
  const PluginCatalog catalog = PluginCatalog::standard();
  const PipelineScript script = load_subject_script(with_model);
  const PipelineDescription& pipeline = script.pipelines().front();
  files->model = pipeline.model.choices.front().options.value("path", "");
  files->script = files->folder.path() / "pipeline.lua";
  std::ofstream stream(files->script);
  stream << script_text(pipeline, {}, catalog) << std::flush;
  if (!stream)
    fail("{}: cannot be written; is the disk full? (TMPDIR can name another folder)", files->script.native());
  return files;
}

}  // namespace mortise::bench

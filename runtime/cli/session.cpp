#include "cli/session.hpp"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <exception>
#include <filesystem>
#include <map>
#include <span>
#include <utility>

#include "assembly/default_script.hpp"
#include "cli/interrupt.hpp"
#include "cli/pipeline_chat.hpp"
#include "error.hpp"
#include "jsonl/json_line.hpp"
#include "trial/trial.hpp"

namespace mortise {
namespace {

std::vector<std::string> names_of(const SessionOptions& options) {
  std::vector<std::string> paths = options.folders;
  if (!options.script.empty()) paths.insert(paths.begin(), options.script);
  return paths;
}

PipelineScript load_script(const SessionOptions& options) {
  return load_pipelines(names_of(options), PluginCatalog::standard());
}

}  // namespace

void add_session_options(CLI::App& command, SessionOptions& options) {
  command.add_option("script", options.script,
                     "pipeline script, or a checkpoint (its folder, or a GGUF file) (default: the embedded demo)");
  command.add_option("--trace", options.trace, "write a Chrome trace of the engine's steps to this file");
  command.add_option(
      "--record-abi", options.record_abi,
      "[PART=]FILE: write the calls of this scheduler, proposer or attention (default: the scheduler) for mortise "
      "plugin replay");
}

void add_record_option(CLI::App& command, SessionOptions& options) {
  command.add_option("--record", options.record, "add every request to this log, for mortise replay");
}

OpenPipeline::OpenPipeline(const PipelineDescription& description, Session& session)
    : name(description.name),
      assembly(description),
      service(engine, assembly.tokenizer(), session.service_info(description, assembly)),
      engine(assembly.parts(), assembly.limits(), assembly.model_info(), assembly.tokenizer(),
             session.hooks_for(*this)),
      session_(session) {
  if (const auto tell = session.options_.fallback_observer) {
    assembly.on_fallback([this, tell](const FallbackNews& news) { tell(*this, news); });
  }
}

PipelineDescription OpenPipeline::try_change(const PartChange& change) {
  const std::lock_guard lock(trying_);
  try_out({assembly.description(), change, std::nullopt});
  const PluginCatalog catalog = PluginCatalog::standard();
  return session_.prepared(with_change(assembly.description(), change, catalog, std::filesystem::current_path()));
}

void OpenPipeline::try_out(const TrialOrder& order) {
  if (engine.health().state != EngineHealth::State::kOk) return;  // the swap reports the reason
  const TrialOutcome outcome = try_parts(
      order, [this] { return engine.health().state != EngineHealth::State::kOk || InterruptGuard::interrupted(); });
  if (outcome.was_made) return;
  spdlog::warn(
      "{}: the new parts were not tried first, because the serving parts could not be opened a second time: {}", name,
      outcome.why_not);
}

Session::Session(const SessionOptions& options)
    : options_(options),
      queue_(options.queue),
      populate_kv_(options.populate_kv),
      observer_(options.observer),
      kv_observer_(options.kv_observer),
      script_(load_script(options)) {
  if (!options.record_abi.empty()) call_recorder_ = std::make_unique<CallRecorder>(options.record_abi);
  if (!options.trace.empty()) start_trace(options.trace);
  if (!options.record.empty()) recorder_ = std::make_unique<Recorder>(options.record);
}

Session::~Session() {
  try {
    close();
  } catch (const Error& error) {
    spdlog::error("{}", error.what());
  }
}

void Session::close() {
  std::map<std::size_t, std::unique_ptr<OpenPipeline>> open;
  std::list<Leaving> leaving;
  {
    const std::lock_guard lock(open_mutex_);
    closes_ = true;
    open.swap(open_);
    leaving.swap(leaving_);
  }
  closing_.notify_all();
  for (Leaving& one : leaving) one.thread.join();
  open.clear();  // ends the engines, which write to the record and the trace until they end
  const std::unique_ptr<Recorder> recorder = std::move(recorder_);
  const std::unique_ptr<TraceFile> trace = std::move(trace_);
  if (trace) trace->close();
  if (recorder) recorder->close();
}

void Session::start_trace(const std::string& path) {
  if (trace_) fail("a trace is already being written to {}; end it first", trace_path_);
  trace_ = std::make_unique<TraceFile>(path);
  trace_path_ = path;
  const std::lock_guard lock(open_mutex_);
  for (const auto& [index, pipeline] : open_) {
    if (pipeline) pipeline->engine.trace_to(trace_.get());
  }
}

std::optional<std::string> Session::end_trace() {
  if (!trace_) return std::nullopt;
  std::list<Leaving> leaving;
  {
    const std::lock_guard lock(open_mutex_);
    for (const auto& [index, pipeline] : open_) {
      if (pipeline) pipeline->engine.trace_to(nullptr);
    }
    leaving.swap(leaving_);
  }
  for (Leaving& one : leaving) one.thread.join();  // replaced pipelines write to the file until they end
  const std::unique_ptr<TraceFile> trace = std::move(trace_);
  trace->close();
  return trace_path_;
}

std::string Session::model_name(const std::string& pipeline, const Assembly& assembly) const {
  // Several pipelines with one checkpoint are several models, named by pipeline.
  return script_.pipelines().size() > 1 ? pipeline : assembly.checkpoint().path().filename().string();
}

ServiceInfo Session::service_info(const PipelineDescription& description, const Assembly& assembly) {
  ServiceInfo info;
  info.model = model_name(description.name, assembly);
  info.system_fingerprint = assembly.system_fingerprint();
  info.defaults = assembly.default_sampling();
  info.max_model_len = assembly.limits().max_model_len;
  PipelineChat::Script script;
  if (script_.has_chat_template()) script = [this](const nlohmann::json& messages) { return script_chat(messages); };
  const auto chat = std::make_shared<const PipelineChat>(assembly.tokenizer(), description, std::move(script));
  info.chat_template = [chat](const ChatInput& input) { return chat->render(input); };
  if (observer_) info.observer = observer_(info.model);
  return info;
}

EngineHooks Session::hooks_for(const OpenPipeline& pipeline) {
  EngineHooks hooks;
  hooks.name = "pipeline " + pipeline.name;
  hooks.trace = trace_.get();
  hooks.queue = queue_;
  hooks.warm_up = options_.warm_up;
  if (kv_observer_) {
    const Assembly& assembly = pipeline.assembly;
    hooks.kv_observer = kv_observer_(model_name(pipeline.name, assembly), assembly.limits());
  }
  if (options_.watcher) hooks.watcher = options_.watcher(pipeline.name, pipeline.assembly);
  if (recorder_) {
    const Assembly& assembly = pipeline.assembly;
    hooks.watcher = &recorder_->add_pipeline({pipeline.name, assembly.checkpoint().path().filename().string(),
                                              assembly.system_fingerprint(), assembly.numerics_id(),
                                              assembly.dims().vocab_size, assembly.vocabulary()});
  }
  return hooks;
}

void Session::check_health() const {
  const std::lock_guard lock(open_mutex_);
  for (const auto& [index, pipeline] : open_) {
    if (!pipeline) continue;
    const EngineHealth health = pipeline->engine.health();
    if (health.state != EngineHealth::State::kFailed) continue;
    fail(ErrorCode::kUnavailable, "pipeline '{}' cannot continue: {}", pipeline->name, health.reason);
  }
}

OpenPipeline& Session::open(std::size_t index) {
  const std::lock_guard lock(open_mutex_);
  std::unique_ptr<OpenPipeline>& pipeline = open_[index];
  if (pipeline) return *pipeline;
  pipeline = std::make_unique<OpenPipeline>(prepared(script_.pipelines()[index]), *this);
  return *pipeline;
}

PipelineDescription Session::prepared(PipelineDescription description) const {
  if (!description.kv_cache.populate) description.kv_cache.populate = populate_kv_;
  if (call_recorder_) {
    replace_components(description, [this](const Component& component) -> const Component& {
      return call_recorder_->component(component);
    });
  }
  return description;
}

std::unique_ptr<OpenPipeline> Session::open_beside(const OpenPipeline& running,
                                                   const PipelineDescription& description) {
  if (!options_.record.empty()) {
    fail(ErrorCode::kConflict, "{} records what {} answers, but another model needs another log; start another server",
         options_.record, running.service.info().model);
  }
  return std::make_unique<OpenPipeline>(prepared(description), *this);
}

void Session::replace(OpenPipeline& old, std::unique_ptr<OpenPipeline> next, std::weak_ptr<const void> users) {
  const std::lock_guard lock(open_mutex_);
  std::erase_if(leaving_, [](Leaving& leaving) {
    if (!leaving.is_over) return false;
    leaving.thread.join();
    return true;
  });
  const auto found = std::ranges::find_if(open_, [&](const auto& entry) { return entry.second.get() == &old; });
  assert(found != open_.end());
  Leaving& leaving = leaving_.emplace_back();
  try {
    leaving.thread = std::thread([this, &leaving, users = std::move(users)] { wait_for_end(leaving, users); });
  } catch (...) {  // no thread could be started
    leaving_.pop_back();
    throw;
  }
  leaving.pipeline = std::exchange(found->second, std::move(next));
}

void Session::wait_for_end(Leaving& leaving, const std::weak_ptr<const void>& users) {
  constexpr auto kLook = std::chrono::milliseconds(50);
  {
    std::unique_lock lock(open_mutex_);  // when replace() releases the lock, the pipeline is in the list
    while (!closes_ && (!users.expired() || num_reloading_ > 0)) closing_.wait_for(lock, kLook);
  }
  leaving.pipeline.reset();
  leaving.is_over = true;
}

std::vector<OpenPipeline*> Session::open_all() {
  std::vector<OpenPipeline*> all;
  for (std::size_t i = 0; i < script_.pipelines().size(); ++i) all.push_back(&open(i));
  return all;
}

// While this lives, no open pipeline is ended, because reload() reads it.
class Session::ReloadingMark {
 public:
  explicit ReloadingMark(Session& session) : session_(session) { count(1); }
  ~ReloadingMark() { count(-1); }
  ReloadingMark(const ReloadingMark&) = delete;
  ReloadingMark& operator=(const ReloadingMark&) = delete;

 private:
  void count(int change) {
    const std::lock_guard lock(session_.open_mutex_);
    session_.num_reloading_ += change;
  }
  Session& session_;
};

namespace {

std::vector<std::string> names_of(const PipelineScript& script) {
  std::vector<std::string> names;
  for (const PipelineDescription& pipeline : script.pipelines()) names.push_back(pipeline.name);
  return names;
}

// Front ends have copied these properties of the script, so they must not change.
void check_same_shape(const PipelineScript& now, const PipelineScript& next) {
  if (names_of(now) != names_of(next)) {
    fail(ErrorCode::kConflict, "the script has the pipelines {}, but {} are served; restart the program for others",
         fmt::join(names_of(next), ", "), fmt::join(names_of(now), ", "));
  }
  bool same_chat = now.has_chat_template() == next.has_chat_template();
  for (std::size_t i = 0; i < now.pipelines().size(); ++i) {
    same_chat = same_chat && now.pipelines()[i].chat == next.pipelines()[i].chat;
  }
  if (!same_chat) {
    fail(ErrorCode::kConflict,
         "the script's 'chat' has changed, or a chat_template was added or removed; restart the program to use it");
  }
}

}  // namespace

std::vector<std::pair<std::size_t, OpenPipeline*>> Session::all_open() {
  const std::lock_guard lock(open_mutex_);
  std::vector<std::pair<std::size_t, OpenPipeline*>> all;
  for (const auto& [index, pipeline] : open_) {
    if (pipeline) all.emplace_back(index, pipeline.get());
  }
  return all;
}

void Session::reload(const std::function<void(OpenPipeline& pipeline, const MakeWanted& wanted)>& each) {
  const ReloadingMark mark(*this);
  const std::vector<std::pair<std::size_t, OpenPipeline*>> open = all_open();
  std::map<std::size_t, std::exception_ptr> refused;
  for (const auto& [index, pipeline] : open) {
    try {
      const std::lock_guard lock(pipeline->trying_);
      pipeline->try_out(
          {pipeline->assembly.description(), std::nullopt, ScriptChange{names_of(options_), index, populate_kv_}});
    } catch (const UnreadableScript&) {
      throw;
    } catch (const Error&) {
      refused[index] = std::current_exception();
    }
  }
  PipelineScript next = load_script(options_);
  check_same_shape(script_, next);
  const std::vector<PipelineDescription> pipelines = next.pipelines();
  {
    const std::lock_guard lock(mutex_);
    script_.replace_callbacks(std::move(next));
  }
  for (const auto& [index, pipeline] : open) {
    const PipelineDescription wanted = prepared(pipelines[index]);
    if (same_pipeline(wanted, pipeline->assembly.description())) continue;
    each(*pipeline, [&, index = index] {
      if (const auto found = refused.find(index); found != refused.end()) std::rethrow_exception(found->second);
      return wanted;
    });
  }
}

std::size_t Session::index_for(const nlohmann::json& body) const {
  const auto& pipelines = script_.pipelines();
  if (pipelines.size() == 1 || !body.is_object() || !body.contains("model") || body.at("model").is_null()) return 0;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < pipelines.size(); ++i) {
    if (body.at("model") == pipelines[i].name) return i;
    names.push_back(pipelines[i].name);
  }
  fail(ErrorCode::kNotFound, "model {} is not one of the script's pipelines: {}", dump_line(body.at("model")),
       fmt::join(names, ", "));
}

OpenPipeline& Session::pipeline_for(const nlohmann::json& body) {
  return open(index_for(body));
}

const std::string& Session::pipeline_name(const nlohmann::json& body) const {
  return script_.pipelines()[index_for(body)].name;
}

OpenPipeline& Session::pipeline_named(const std::string& name) {
  return pipeline_for({{"model", name}});
}

void Session::route(nlohmann::json& body) {
  if (!body.is_object()) return;
  std::optional<RequestRoute> route;
  {
    const std::lock_guard lock(mutex_);
    route = script_.on_request(body);
  }
  if (!route) return;
  if (route->priority && !body.contains("priority")) body["priority"] = *route->priority;
  if (route->group && !body.contains("group")) body["group"] = *route->group;
  if (!route->proposer && !route->max_drafts) return;
  nlohmann::json& speculation = body["speculation"];
  if (speculation.is_null()) speculation = nlohmann::json::object();
  if (!speculation.is_object()) return;  // the reader of the field reports the problem
  const auto add = [&](const char* name, const auto& value) {
    if (value && !speculation.contains(name)) speculation[name] = *value;
  };
  add("proposer", route->proposer);
  add("max_tokens", route->max_drafts);
}

std::string Session::script_chat(const nlohmann::json& messages) {
  const std::lock_guard lock(mutex_);
  return script_.chat_template(messages).value();
}

}  // namespace mortise

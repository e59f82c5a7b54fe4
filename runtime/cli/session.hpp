// runtime/cli/session.hpp: a script's pipelines, opened and running, as every command that runs an engine uses them.
#pragma once

#include <CLI/App.hpp>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "assembly/assembly.hpp"
#include "engine/engine.hpp"
#include "openai/service.hpp"
#include "pipeline/part_change.hpp"
#include "pipeline/pipeline_script.hpp"
#include "replay/recorder.hpp"
#include "trace/trace_file.hpp"
#include "trial/order.hpp"

namespace mortise {

class Session;
struct OpenPipeline;

struct SessionOptions {
  std::string script;                     // a script or a checkpoint's folder; empty: the embedded demo
  std::string trace;                      // file for a trace of the engines' steps; empty: none
  std::string record;                     // file for a log of their requests; empty: none
  std::vector<std::string> folders = {};  // further checkpoints' folders: a pipeline each
  // Commands bound what they submit (OrderedLinesLimits, kMaxOpenTokens), and a refused line would be a lost one.
  QueueLimits queue = QueueLimits::unbounded();
  Trials trials = Trials::kAtOnce;  // kWhenIdle: the first token comes earlier
  bool populate_kv = false;         // takes KV memory at the start where the script does not say
  // Gives the observer that measures the answers of a model. The observer must outlive the session. Empty: no observer.
  std::function<AnswerObserver*(const std::string& model)> observer = {};
  // Gives the observer for the prefix cache of a model. The observer must outlive the session. Empty: no observer.
  std::function<KvObserver*(const std::string& model, const EngineLimits& limits)> kv_observer = {};
  // Gives the watcher for the requests of a pipeline when it is opened. The watcher must outlive the session. Empty: no
  // watcher. REQUIRES: nothing is recorded.
  std::function<RequestWatcher*(const std::string& pipeline, const Assembly& assembly)> watcher = {};
  // Called when a part of the pipeline has failed and the part before it has come back, or could not. Must not wait.
  // Must outlive the session. Empty: only the log reports it. [engine's thread]
  std::function<void(const OpenPipeline& pipeline, const FallbackNews& news)> fallback_observer = {};
};

// [script] and --trace, which every command that runs an engine has.
void add_session_options(CLI::App& command, SessionOptions& options);
// --record, for commands whose requests are their user's.
void add_record_option(CLI::App& command, SessionOptions& options);

// A pipeline whose parts are loaded and whose engine runs.
struct OpenPipeline {
  OpenPipeline(const PipelineDescription& description, Session& session);

  // What runs, with the change. Its parts are tried in a process of their own first: what that finds is thrown, and
  // then nothing of them has been opened here. What is relative in the change is taken from the working folder. Throws
  // an Error that names the key, plugin or option at fault. [any thread that may wait]
  PipelineDescription try_change(const PartChange& change);
  // Puts other parts in the place of those that run; see Assembly::swap. [any thread but the engine's and a sink's]
  SwapFigures swap(const PipelineDescription& next, const SwapOptions& options = {}) {
    return assembly.swap(engine, next, options);
  }

  const std::string name;  // of the description
  Assembly assembly;
  Service service;  // before the engine, whose end still answers those who wait
  Engine engine;

 private:
  friend class Session;
  void try_out(const TrialOrder& order);

  std::mutex trying_;  // one trial at a time
};

class Session {
 public:
  // Nothing is loaded yet. Throws an Error: of the script, with file and line, or of a file that cannot be written.
  explicit Session(const SessionOptions& options);
  ~Session();  // close(), with what goes wrong logged

  // Ends the engines and completes trace and log. Throws an Error when one of them could not be written.
  void close();

  // All pipelines, opened; the default is the first.
  std::vector<OpenPipeline*> open_all();
  // The default pipeline, opened by the first call.
  OpenPipeline& pipeline() { return open(0); }
  // The pipeline that a body's `model` names. With one pipeline, or without the field, it is the default: clients send
  // names that mean nothing here. Throws an Error that lists the names.
  OpenPipeline& pipeline_for(const nlohmann::json& body);
  // The name of that pipeline, without opening it.
  const std::string& pipeline_name(const nlohmann::json& body) const;
  // The pipeline of this name, or of a script with one pipeline that one. Throws an Error that lists the names.
  OpenPipeline& pipeline_named(const std::string& name);
  // Throws an Error with kUnavailable when a part that an open pipeline needs has failed: nothing runs there any more.
  void check_health() const;
  // Reads the script again, callbacks too, and tells `each` of every open pipeline that the script has otherwise now.
  // `wanted` gives its description, or throws the Error with which its parts were refused when they were tried. Throws
  // an Error when the script cannot be read, or has other pipelines: then nothing has changed. [any thread but an
  // engine's, one at a time]
  using MakeWanted = std::function<PipelineDescription()>;
  void reload(const std::function<void(OpenPipeline& pipeline, const MakeWanted& wanted)>& each);
  // Another pipeline for the place of one that goes on running. Throws an Error, of `running` when it is not open any
  // more, and of the description; then nothing has changed. [any thread but an engine's]
  std::unique_ptr<OpenPipeline> open_beside(const OpenPipeline& running, const PipelineDescription& description);
  // The place of `old` is `next`'s. The old one ends when nobody has `users` any more, and with this session at the
  // latest. REQUIRES: `old` is open. [any thread but an engine's]
  void replace(OpenPipeline& old, std::unique_ptr<OpenPipeline> next, std::weak_ptr<const void> users);
  // Writes a trace of all steps from now on to the file, as --trace does from the start. Throws an Error, and nothing
  // has changed, when a trace is being written already or the file cannot be. [the thread that opens pipelines]
  void start_trace(const std::string& path);
  // Ends the trace, --trace's too. Returns its file, or nullopt when none is written. Throws an Error when it could not
  // be written to its end; it has ended then too. Waits for pipelines whose place another model has taken. [as
  // start_trace()]
  std::optional<std::string> end_trace();
  // What the script's on_request decides, written into the body where it does not say so itself. [any thread]
  void route(nlohmann::json& body);

 private:
  friend struct OpenPipeline;
  // A pipeline whose place another one has taken. Its thread waits for its last user, and then ends it.
  struct Leaving {
    std::unique_ptr<OpenPipeline> pipeline;
    std::atomic<bool> is_over = false;
    std::thread thread;
  };
  class ReloadingMark;
  OpenPipeline& open(std::size_t index);
  std::vector<std::pair<std::size_t, OpenPipeline*>> all_open();
  void wait_for_end(Leaving& leaving, const std::weak_ptr<const void>& users);
  std::size_t index_for(const nlohmann::json& body) const;
  std::string model_name(const std::string& pipeline, const Assembly& assembly) const;
  ServiceInfo service_info(const PipelineDescription& description, const Assembly& assembly);
  EngineHooks hooks_for(const OpenPipeline& pipeline);
  std::string script_chat(const nlohmann::json& messages);

  const SessionOptions options_;
  const QueueLimits queue_;
  const bool populate_kv_;
  const std::function<AnswerObserver*(const std::string& model)> observer_;
  const std::function<KvObserver*(const std::string& model, const EngineLimits& limits)> kv_observer_;
  std::mutex mutex_;  // guards the functions of script_
  PipelineScript script_;
  std::string trace_path_;
  std::unique_ptr<TraceFile> trace_;
  std::unique_ptr<Recorder> recorder_;
  mutable std::mutex open_mutex_;  // guards what follows
  std::condition_variable closing_;
  std::map<std::size_t, std::unique_ptr<OpenPipeline>> open_;
  std::list<Leaving> leaving_;
  bool closes_ = false;    // those that leave end at once
  int num_reloading_ = 0;  // calls of reload() under way
};

}  // namespace mortise

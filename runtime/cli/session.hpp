// runtime/cli/session.hpp: the open pipelines of a script, for every command that runs an engine.
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

#include "abi_record/call_recorder.hpp"
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
  std::string record;                     // file for a log of the requests; empty: none
  std::string record_abi;                 // target of a CallRecorder; empty: none
  std::vector<std::string> folders = {};  // folders of further checkpoints, one pipeline each
  // Unbounded, because commands limit their requests themselves (OrderedLinesLimits, kMaxOpenTokens), and a refused
  // line would be lost.
  QueueLimits queue = QueueLimits::unbounded();
  WarmUp warm_up = WarmUp::kAtOnce;  // kWhenIdle: the first token comes earlier
  bool populate_kv = false;          // take KV memory at the start, unless the script says otherwise
  // Gives the observer that measures the answers of a model. The observer must outlive the session. Empty: no observer.
  std::function<AnswerObserver*(const std::string& model)> observer = {};
  // Gives the observer for the prefix cache of a model. The observer must outlive the session. Empty: no observer.
  std::function<KvObserver*(const std::string& model, const EngineLimits& limits)> kv_observer = {};
  // Gives the watcher for the requests of a pipeline when it is opened. The watcher must outlive the session. Empty: no
  // watcher. REQUIRES: nothing is recorded.
  std::function<RequestWatcher*(const std::string& pipeline, const Assembly& assembly)> watcher = {};
  // Called when a part of the pipeline has failed and the previous part has come back, or could not. It must not wait,
  // and must outlive the session. Empty: only the log reports the failure. [engine's thread]
  std::function<void(const OpenPipeline& pipeline, const FallbackNews& news)> fallback_observer = {};
};

// Adds [script] and --trace, which every command that runs an engine has.
void add_session_options(CLI::App& command, SessionOptions& options);
// Adds --record, for commands whose requests come from a user.
void add_record_option(CLI::App& command, SessionOptions& options);

// A pipeline whose parts are loaded and whose engine runs. Each function says its thread. Invariant: the engine ends
// before the service and the assembly, which it uses.
struct OpenPipeline {
  OpenPipeline(const PipelineDescription& description, Session& session);

  // Returns the current description with the change. The parts are first tried in a separate process; its findings are
  // thrown as an Error, and then nothing was opened here. Relative paths in the change are resolved against the working
  // folder. Throws an Error that names the wrong key, plugin or option. [any thread that may wait]
  PipelineDescription try_change(const PartChange& change);
  // Replaces serving parts; see Assembly::swap. [any thread but the engine's and a sink's]
  SwapFigures swap(const PipelineDescription& next, const SwapOptions& options = {}) {
    return assembly.swap(engine, next, options);
  }

  const std::string name;  // of the description
  Assembly assembly;
  Service service;  // declared before the engine, which still answers waiting requests when it ends
  Engine engine;

 private:
  friend class Session;
  void try_out(const TrialOrder& order);

  const Session& session_;
  std::mutex trying_;  // held while parts are tried
};

// Owns the open pipelines of a script. Invariant: a pipeline in the list runs until replace() or close(). One thread
// opens pipelines; other functions say their thread.
class Session {
 public:
  // Loads nothing yet. Throws an Error about the script, with file and line, or about a file that cannot be written.
  explicit Session(const SessionOptions& options);
  ~Session();  // calls close() and logs errors

  // Ends the engines and completes trace and log. Throws an Error if one of the files could not be written.
  void close();

  // Opens all pipelines; the default is the first.
  std::vector<OpenPipeline*> open_all();
  // Returns the default pipeline; the first call opens it.
  OpenPipeline& pipeline() { return open(0); }
  // Returns the pipeline that a body's `model` names. With a single pipeline, or without the field, it is the default,
  // since many clients send names that mean nothing here. Throws an Error that lists the names.
  OpenPipeline& pipeline_for(const nlohmann::json& body);
  // Returns the name of that pipeline, without opening it.
  const std::string& pipeline_name(const nlohmann::json& body) const;
  // Returns the pipeline of this name; if the script has only one, that pipeline. Throws an Error that lists the names.
  OpenPipeline& pipeline_named(const std::string& name);
  // Throws an Error with kUnavailable if a required part of an open pipeline has failed, so that nothing runs any more.
  void check_health() const;
  // Reads the script again, including callbacks, and calls `each` for every open pipeline that the script now describes
  // differently. `wanted` returns the new description, or throws the Error with which its parts were refused when they
  // were tried. Throws an Error, without changing anything, if the script cannot be read or has other pipelines. [any
  // thread but an engine's, one at a time]
  using MakeWanted = std::function<PipelineDescription()>;
  void reload(const std::function<void(OpenPipeline& pipeline, const MakeWanted& wanted)>& each);
  // Opens a pipeline that is to replace `running`, which continues meanwhile. Throws an Error, without changing
  // anything, if `running` is not open any more, or about the description. [any thread but an engine's]
  std::unique_ptr<OpenPipeline> open_beside(const OpenPipeline& running, const PipelineDescription& description);
  // Replaces `old` by `next`. The old pipeline ends when `users` has expired, and at the latest with this session.
  // REQUIRES: `old` is open. [any thread but an engine's]
  void replace(OpenPipeline& old, std::unique_ptr<OpenPipeline> next, std::weak_ptr<const void> users);
  // Writes a trace of all further steps to the file, like --trace from the start. Throws an Error, without changing
  // anything, if a trace is being written already, or if the file cannot be written. [the thread that opens pipelines]
  void start_trace(const std::string& path);
  // Ends the trace, including that of --trace. Returns its file; nullopt if there was none. Throws an Error if the file
  // could not be written completely; the trace has ended even then. Waits for replaced pipelines. [as start_trace()]
  std::optional<std::string> end_trace();
  // Adds the decisions of the script's on_request to the body, except where the body sets the field itself. [any
  // thread]
  void route(nlohmann::json& body);

 private:
  friend struct OpenPipeline;
  // A replaced pipeline. Its thread waits for its last user, then ends it.
  struct Leaving {
    std::unique_ptr<OpenPipeline> pipeline;
    std::atomic<bool> is_over = false;
    std::thread thread;
  };
  class ReloadingMark;
  OpenPipeline& open(std::size_t index);
  std::vector<std::pair<std::size_t, OpenPipeline*>> all_open();
  void wait_for_end(Leaving& leaving, const std::weak_ptr<const void>& users);
  // Returns the description as it is opened here: with recorded components, and with the command's choice of populate.
  PipelineDescription prepared(PipelineDescription description) const;
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
  std::unique_ptr<CallRecorder> call_recorder_;  // outlives the pipelines
  mutable std::mutex open_mutex_;                // guards the members below
  std::condition_variable closing_;
  std::map<std::size_t, std::unique_ptr<OpenPipeline>> open_;
  std::list<Leaving> leaving_;
  bool closes_ = false;    // replaced pipelines must end at once
  int num_reloading_ = 0;  // calls of reload() in progress
};

}  // namespace mortise

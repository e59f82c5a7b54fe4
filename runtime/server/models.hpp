// runtime/server/models.hpp: the models that a server serves. A model can be replaced while the server runs.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "assembly/swap_options.hpp"
#include "engine/engine.hpp"
#include "openai/service.hpp"
#include "pipeline/part_change.hpp"
#include "tokenizer/tokenizer.hpp"

namespace mortise {

// A part of a pipeline, for display.
struct ServedPart {
  std::string role, name, version, file;  // "attention", "cascade", "1.2.0", the plugin's file
  std::string hash;                       // hash of that file
};

struct ServedModel;
// Keeps a model usable: its pipeline exists until the last reference is gone, even if another model has replaced it.
using ServedModelRef = std::shared_ptr<const ServedModel>;

// The result of a swap, and the model that serves afterwards: the same model, or the one that replaced it.
struct ServedSwap {
  SwapFigures figures;
  ServedModelRef serves;
};

// A model and the functions that the server needs of its pipeline.
struct ServedModel {
  std::string name;  // its name in request bodies
  Service& service;
  Engine& engine;
  const Tokenizer& tokenizer;
  // The current parts; swaps change them. [any thread]
  std::function<std::vector<ServedPart>()> parts;
  std::function<std::int32_t()> block_size;  // tokens of a KV block
  // Swaps a part. Throws an Error if the swap is refused. [any thread that may wait]
  std::function<ServedSwap(const PartChange& change, const SwapOptions& options)> swap;
  nlohmann::json kv_events;         // endpoint, replay and topic of published events; null: none are published
  std::size_t max_waiting = 0;      // the most requests that may wait for their first step
  nlohmann::json tokenizer_config;  // tokenizer_config.json; {} if the checkpoint has none
};

// The list of models, and the model of each request. Invariant: the list is never empty. Thread-safe.
class Models {
 public:
  // REQUIRES: `list` is not empty; its first model is the default. `route` applies the script's on_request to a body;
  // it is called on any thread.
  Models(std::vector<ServedModelRef> list, std::function<void(nlohmann::json& body)> route);

  std::vector<ServedModelRef> list() const;
  // Models that were replaced, but still answer requests.
  std::vector<ServedModelRef> leaving() const;
  // From now on requests go to `next` instead of `old`. Returns false if `old` is not served any more.
  bool replace(const ServedModel& old, ServedModelRef next);
  // The model that a body's `model` names. With a single model, or without the field, it is the default, since many
  // clients send names that mean nothing here. Throws an Error with kNotFound that lists the names.
  ServedModelRef of(const nlohmann::json& body) const;
  // The model that a url's query names, as in "?model=demo". Throws an Error that lists the names if the name is
  // unknown, or if there are several models and none is named.
  ServedModelRef of_query(const std::optional<std::string>& name) const;
  // Returns the model with exactly this name, or nullptr.
  ServedModelRef find(std::string_view name) const;
  void route(nlohmann::json& body) const { route_(body); }

 private:
  mutable std::mutex mutex_;  // guards both lists
  std::vector<ServedModelRef> list_;
  std::vector<std::weak_ptr<const ServedModel>> leaving_;
  const std::function<void(nlohmann::json&)> route_;
};

}  // namespace mortise

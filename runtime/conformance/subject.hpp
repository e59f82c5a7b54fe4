// runtime/conformance/subject.hpp: what a case sees: the plugin file, the component under test, and how to draw inputs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "conformance/attention_shape.hpp"
#include "conformance/part.hpp"
#include "loader/part_instance.hpp"
#include "loader/plugin_file.hpp"

namespace mortise::conformance {

// What the user asked for.
struct CheckOptions {
  std::filesystem::path file;
  nlohmann::json options = nlohmann::json::object();  // options of the component; those without a default must be given
  std::uint64_t seed = 1;
  Level level = Level::kQuick;
};

// The subject of one case, in the process of that case. Invariant: equal seeds and case names give equal numbers of
// random(). Used by one thread.
class Subject {
 public:
  // `component`: its name and kind, "scheduler 'fcfs'"; empty for a case of the file.
  Subject(const CheckOptions& check, std::string component, const char* case_name);

  const std::filesystem::path& path() const { return check_.file; }
  Level level() const { return check_.level; }
  // Returns `quick` at the level quick, and ten times as much at higher levels.
  int rounds(int quick) const { return check_.level == Level::kQuick ? quick : 10 * quick; }
  // Loads the file at the first call. Throws an Error as load_plugin_file does.
  const PluginFile& file();
  // Returns the bytes of the file. Throws CaseFailed if it cannot be read.
  std::vector<char> bytes() const;
  // Loads another image of the file, beside the one of file(), and returns its entry. Throws CaseFailed if that fails.
  decltype(mortise_plugin_entry_v0)* load_copy() const;
  const Component& component();
  // Returns the generator, whose numbers depend only on the seed and the case's name.
  std::mt19937_64& random() { return random_; }
  // Returns the options that the user gave, with defaults. A path without a default with which a proposer opens a
  // runner gets any folder. Throws NotApplicable if another option without a default is missing.
  nlohmann::json options();

  // Creates an instance with these options and changes to the setup. Throws CaseFailed if create fails.
  std::unique_ptr<Part> make(PartSetup setup);
  std::unique_ptr<Part> make() { return make(setup()); }
  // Returns the setup that make() uses: the subject's options, for an attention or a model a device that it serves, and
  // for a model the configuration of its checkpoint. Throws NotApplicable if there is no such device.
  PartSetup setup();
  // The same, bound and activated, ready for steps.
  std::unique_ptr<Part> make_active(PartSetup setup);
  std::unique_ptr<Part> make_active() { return make_active(setup()); }
  // Returns a device that the attention or model serves, opened at the first call. Throws NotApplicable if there is
  // none.
  const PartInstance& device();
  // Returns the folder in a model's option `path`, opened at the first call. Throws an Error if it cannot be used, and
  // NotApplicable if the model has no such option.
  const Checkpoint& checkpoint();
  // Makes the binding calls of the part's kind (for a model: load). Returns OK if the kind has none.
  Answer bind(Part& part);
  // Binds and activates. Throws CaseFailed if that fails.
  void start(Part& part);

 private:
  const CheckOptions& check_;
  const std::string component_;
  std::mt19937_64 random_;
  bool is_path_of_a_draft_model(const Option& option);
  Answer bind_attention(Part& part);
  Answer load_model(Part& part);
  mortise_query query_for_device(const char* name);

  std::optional<bool> takes_any_path_;  // of is_path_of_a_draft_model(); nullopt: not tried yet
  const mortise_model_dims dims_;       // of the model that the part serves
  std::optional<Checkpoint> checkpoint_;
  // The device is opened at its first use. It is never closed, because parts use it until they end.
  std::unique_ptr<PartInstance> device_;
  void* kv_ = nullptr;  // memory of the device for the KV of an attention; ends with the process
};

// Returns sizes for activate that suit every case.
mortise_activate_args usual_sizes();

// Returns the arguments that the entry of a plugin gets from this host.
mortise_entry_args entry_args();

}  // namespace mortise::conformance

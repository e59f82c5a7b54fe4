#include "pipeline/pipeline_script.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "error.hpp"
#include "lauxlib.h"
#include "loader/nearest.hpp"
#include "pipeline/callback_thread.hpp"
#include "pipeline/constructors.hpp"
#include "pipeline/demo_script.hpp"
#include "pipeline/lua_globals.hpp"
#include "pipeline/lua_json.hpp"
#include "pipeline/lua_sandbox.hpp"
#include "pipeline/lua_state.hpp"

namespace mortise {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kMaxScriptBytes = std::uintmax_t{1} << 20;

std::string read_script(const fs::path& file) {
  std::error_code error;
  const auto status = fs::status(file, error);
  if (status.type() == fs::file_type::none) {
    fail("{}: cannot be examined: {}; check its permissions and links", file.string(), error.message());
  }
  if (!fs::exists(status)) fail("{}: no such script, and not a checkpoint's folder; check the path", file.string());
  if (!fs::is_regular_file(status)) fail("{}: is not a file; name the script in it", file.string());
  if (fs::file_size(file, error) > kMaxScriptBytes)
    fail("{}: is larger than 1 MiB; is it a Lua script?", file.string());
  std::ifstream stream(file, std::ios::binary);
  if (!stream) fail("{}: cannot be read; check its permissions", file.string());
  return {std::istreambuf_iterator<char>(stream), {}};
}

// The script_dir of the demo script: script_dir .. "/../models" must be the demo models.
fs::path demo_folder() {
  const fs::path installed = executable_folder().parent_path() / "share" / "mortise";
  const fs::path source = kSourceFolder;
  for (const fs::path& base : {installed, source}) {
    std::error_code error;
    if (fs::exists(base / "models" / "demo" / "config.json", error)) return base / "scripts";
  }
  fail("the demo model is neither in {} nor in {}; name a pipeline script: mortise run SCRIPT",
       (installed / "models" / "demo").string(), (source / "models" / "demo").string());
}

template <typename T>
std::optional<T> route_field(const nlohmann::json& route, const char* name, bool fits, const char* expected) {
  const auto value = route.find(name);
  if (value == route.end()) return std::nullopt;
  if (!fits) fail("on_request returned {} = {}; expected {}", name, show_value(*value), expected);
  return value->get<T>();
}

RequestRoute parse_route(const nlohmann::json& route) {
  if (route.is_null()) return {};
  if (!route.is_object()) {
    fail("on_request returned {}; expected nil or a table with priority, group, proposer or max_draft_tokens",
         show_value(route));
  }
  for (const auto& [key, value] : route.items()) {
    if (key != "priority" && key != "group" && key != "proposer" && key != "max_draft_tokens") {
      fail("on_request returned the unknown key '{}'; it may set priority, group, proposer and max_draft_tokens", key);
    }
  }
  const auto is_text = [&](const char* name) { return route.contains(name) && route[name].is_string(); };
  const auto is_integer = [&](const char* name, double least) {
    return route.contains(name) && route[name].is_number_integer() && route[name].get<double>() >= least &&
           route[name].get<double>() <= INT32_MAX;
  };
  return {.priority = route_field<std::int32_t>(route, "priority", is_integer("priority", -INT32_MAX),
                                                "a whole number of 32 bits"),
          .group = route_field<std::string>(route, "group", is_text("group"), "a text"),
          .proposer = route_field<std::string>(route, "proposer", is_text("proposer"), "a text"),
          .max_drafts = route_field<std::int32_t>(route, "max_draft_tokens", is_integer("max_draft_tokens", 0),
                                                  "a whole number from 0")};
}

}  // namespace

struct PipelineScript::Impl {
  Impl(std::string script_name, const ScriptLimits& script_limits)
      : name(std::move(script_name)), limits(script_limits), lua(limits.memory_bytes), thread(name) {}

  void run(std::string_view script);
  std::vector<GlobalUse> global_uses(std::set<std::string>& defined);
  void call(const LuaBudget& budget, const std::function<void(lua_State*)>& body);
  void take_result(lua_State* L);
  void find_callbacks(lua_State* L);
  // Calls the script's global function with one argument. `result` reads the value on top.
  void callback(const char* function, const nlohmann::json& argument, const std::function<void(lua_State*)>& result);

  std::string name;
  std::string text;
  ScriptLimits limits;
  ScriptParts parts;
  LuaState lua;
  CallbackThread thread;
  std::set<std::string> callbacks;  // defined by the script
  std::vector<PipelineDescription> pipelines;
};

// Runs `body`. Errors without a line (out of memory, error(text, 0)) get the script's name.
void PipelineScript::Impl::call(const LuaBudget& budget, const std::function<void(lua_State*)>& body) {
  try {
    lua.call(budget, body);
  } catch (const Error& error) {
    if (std::string_view(error.what()).starts_with(name)) throw;
    fail("{}: {}", name, error.what());
  }
}

void PipelineScript::Impl::run(std::string_view script) {
  text = script;
  call(limits.load, [&](lua_State* L) {
    open_limited_libraries(L, parts.folder);
    open_constructors(L, parts);
    lua_pushstring(L, parts.folder.c_str());
    lua_setglobal(L, "script_dir");
    if (luaL_loadbufferx(L, text.data(), text.size(), ("@" + name).c_str(), "t") != LUA_OK) lua_error(L);
    lua_call(L, 0, 1);
    take_result(L);
    lua_settop(L, 0);
    find_callbacks(L);
    lua_gc(L, LUA_GCCOLLECT);  // closes files that the script did not close
  });
  parts.loading = false;
}

// The globals of the whole script, found by compiling it. `defined` gets the names of the existing globals.
std::vector<GlobalUse> PipelineScript::Impl::global_uses(std::set<std::string>& defined) {
  std::vector<GlobalUse> uses;
  call(limits.load, [&](lua_State* L) {
    if (luaL_loadbufferx(L, text.data(), text.size(), ("@" + name).c_str(), "t") != LUA_OK) lua_error(L);
    std::string chunk;
    const lua_Writer append = [](lua_State*, const void* data, std::size_t size, void* text) {
      static_cast<std::string*>(text)->append(static_cast<const char*>(data), size);
      return 0;
    };
    lua_dump(L, append, &chunk, /*strip=*/0);
    uses = find_globals(chunk);
    lua_pushglobaltable(L);
    for (lua_pushnil(L); lua_next(L, -2) != 0; lua_pop(L, 1)) {
      if (lua_type(L, -2) == LUA_TSTRING) defined.insert(lua_tostring(L, -2));
    }
  });
  return uses;
}

// Reads the value on top: a pipeline or a table of pipelines.
void PipelineScript::Impl::take_result(lua_State* L) {
  if (const auto index = pipeline_at(L, -1)) {
    pipelines.push_back(parts.pipelines[*index]);
    const fs::path file(name);  // a folder given instead of a script may have a "." in its name: "Llama-3.2-1B"
    pipelines.back().name = (file.extension() == ".lua" ? file.stem() : file.filename()).string();
    return;
  }
  if (lua_type(L, -1) != LUA_TTABLE) {
    fail("{}: returns {}; end it with `return pipeline {{ ... }}`, or a table of named ones", name,
         lua_isnil(L, -1) ? "nothing" : luaL_typename(L, -1));
  }
  std::vector<std::pair<std::size_t, std::string>> named;
  for (lua_pushnil(L); lua_next(L, -2) != 0; lua_pop(L, 1)) {
    const auto index = pipeline_at(L, -1);
    if (lua_type(L, -2) != LUA_TSTRING || !index) {
      fail("{}: returns a table with a {} under a {}; expected pipelines by name, {{ name = pipeline {{ ... }} }}",
           name, luaL_typename(L, -1), luaL_typename(L, -2));
    }
    named.emplace_back(*index, lua_tostring(L, -2));
  }
  if (named.empty()) fail("{}: returns an empty table; put a pipeline {{ ... }} in it", name);
  if (named.size() > kMaxPipelines) fail("{}: returns more than {} pipelines; return fewer", name, kMaxPipelines);
  // Lua tables have no order, but pipelines have the order in which they were made; the first is the default.
  std::sort(named.begin(), named.end());
  std::stable_partition(named.begin(), named.end(), [](const auto& entry) { return entry.second == "default"; });
  for (const auto& [index, key] : named) {
    pipelines.push_back(parts.pipelines[index]);
    pipelines.back().name = key;
  }
}

void PipelineScript::Impl::find_callbacks(lua_State* L) {
  lua_pushglobaltable(L);
  for (const char* function : {"chat_template", "on_request"}) {
    lua_pushstring(L, function);
    lua_rawget(L, -2);  // raw, so that an absent name is not looked up as a plugin
    if (!lua_isnil(L, -1)) callbacks.insert(function);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

void PipelineScript::Impl::callback(const char* function, const nlohmann::json& argument,
                                    const std::function<void(lua_State*)>& result) {
  call(limits.callback, [&](lua_State* L) {
    lua_getglobal(L, function);
    push_json(L, argument);
    lua_call(L, 1, 1);
    result(L);
  });
}

PipelineScript::PipelineScript(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
PipelineScript::PipelineScript(PipelineScript&&) noexcept = default;
PipelineScript& PipelineScript::operator=(PipelineScript&&) noexcept = default;
PipelineScript::~PipelineScript() = default;

PipelineScript PipelineScript::from_text(std::string_view text, const std::string& name, const fs::path& folder,
                                         const PluginCatalog& catalog, const ScriptLimits& limits) {
  auto impl = std::make_shared<Impl>(name, limits);
  impl->parts.catalog = &catalog;
  impl->parts.folder = fs::absolute(folder).lexically_normal();
  impl->run(text);
  impl->parts.catalog = nullptr;  // the catalog is the caller's, and callbacks look up no plugins
  return PipelineScript(std::move(impl));
}

PipelineScript PipelineScript::load(const fs::path& file, const PluginCatalog& catalog) {
  return from_text(read_script(file), file.string(), fs::absolute(file).parent_path(), catalog);
}

PipelineScript PipelineScript::load_demo(const PluginCatalog& catalog) {
  return from_text(kDemoScript, "demo.lua", demo_folder(), catalog);
}

const std::vector<PipelineDescription>& PipelineScript::pipelines() const {
  return impl_->pipelines;
}

std::vector<std::string> PipelineScript::unknown_variables(const PluginCatalog& catalog) const {
  std::set<std::string> defined;
  const std::vector<GlobalUse> uses = impl_->global_uses(defined);
  for (const GlobalUse& use : uses) {
    if (use.written) defined.insert(use.name);
  }
  std::map<int, std::string> messages;  // by line, since nested functions are reported before later lines
  for (const GlobalUse& use : uses) {
    // Ignores the body of the script: it has run, and unreached code may depend on the machine.
    if (!use.in_function || use.written || defined.contains(use.name)) continue;
    std::string why = why_absent(use.name);
    if (why.empty()) {
      if (!catalog.find(use.name).components.empty()) continue;
      std::vector<std::string> names = use.visible;
      names.insert(names.end(), defined.begin(), defined.end());
      why = fmt::format("unknown variable '{}'{}", use.name, did_you_mean(use.name, names));
    }
    messages.emplace(use.line, fmt::format("{}:{}: {}", impl_->name, use.line, why));
  }
  std::vector<std::string> list;
  for (auto& [line, message] : messages) list.push_back(std::move(message));
  return list;
}

void PipelineScript::replace_callbacks(PipelineScript other) {
  other.impl_->pipelines = std::move(impl_->pipelines);
  impl_ = std::move(other.impl_);
}

bool PipelineScript::has_chat_template() const {
  return impl_->callbacks.contains("chat_template");
}

// The work of both callbacks owns copies of everything, because it may continue after the caller has stopped waiting.
std::optional<std::string> PipelineScript::chat_template(const nlohmann::json& messages) {
  if (!impl_->callbacks.contains("chat_template")) return std::nullopt;
  const auto text = std::make_shared<std::string>();
  impl_->thread.run("chat_template", impl_->limits.callback_wait, [impl = impl_, messages, text] {
    impl->callback("chat_template", messages, [&](lua_State* L) {
      if (lua_type(L, -1) != LUA_TSTRING) {
        fail("{}: chat_template returned a {}; expected a text", impl->name, luaL_typename(L, -1));
      }
      std::size_t size = 0;
      const char* data = lua_tolstring(L, -1, &size);
      text->assign(data, size);
    });
  });
  return std::move(*text);
}

std::optional<RequestRoute> PipelineScript::on_request(const nlohmann::json& request) {
  if (!impl_->callbacks.contains("on_request")) return std::nullopt;
  const auto route = std::make_shared<RequestRoute>();
  impl_->thread.run("on_request", impl_->limits.callback_wait, [impl = impl_, request, route] {
    impl->callback("on_request", request, [&](lua_State* L) {
      try {
        *route = parse_route(to_json(L, -1));
      } catch (const Error& error) {
        fail("{}: {}", impl->name, error.what());
      }
    });
  });
  return std::move(*route);
}

}  // namespace mortise

#include "pipeline/constructors.hpp"

#include <algorithm>

#include "error.hpp"
#include "lauxlib.h"
#include "loader/nearest.hpp"
#include "pipeline/lua_json.hpp"
#include "pipeline/lua_state.hpp"

namespace mortise {
namespace {

constexpr const char* kPartType = "mortise.part";
constexpr const char* kProposersType = "mortise.proposers";
constexpr const char* kPipelineType = "mortise.pipeline";

// Parts are in C++'s memory, so the script's memory limit does not end a loop that makes them.
constexpr std::size_t kMaxParts = 1000;
// In instructions. A look-up reads plugin files, all of them if no file has the name, which takes about as long as
// this.
constexpr std::int64_t kLookUpCost = 100'000;

// The ScriptParts, upvalue 1 of every function here.
ScriptParts& script_parts(lua_State* L) {
  return *static_cast<ScriptParts*>(lua_touserdata(L, lua_upvalueindex(1)));
}

void push_index(lua_State* L, std::size_t index, const char* type) {
  *static_cast<std::size_t*>(lua_newuserdatauv(L, sizeof index, 0)) = index;
  luaL_setmetatable(L, type);
}

std::optional<std::size_t> index_at(lua_State* L, int index, const char* type) {
  const void* data = luaL_testudata(L, index, type);
  if (data == nullptr) return std::nullopt;
  return *static_cast<const std::size_t*>(data);
}

// The options table at index 1 of a constructor's call; without one, an empty table.
nlohmann::json options_at_1(lua_State* L, const std::string& name) {
  if (lua_isnoneornil(L, 1)) return nlohmann::json::object();
  if (lua_type(L, 1) != LUA_TTABLE) {
    fail("{} needs a table of options, {} {{ ... }}, not a {}", name, name, luaL_typename(L, 1));
  }
  nlohmann::json options;
  try {
    options = to_json(L, 1);
  } catch (const Error& error) {
    fail("a value given to {} {}", name, error.what());
  }
  if (!options.is_object()) fail("{} needs options by name, {} {{ option = value }}, not a list", name, name);
  return options;
}

// Puts `where` in front of an Error about several parts. (A part's own message already begins with its line.)
[[noreturn]] void throw_located(const std::string& where, const Error& error) {
  const std::string text = error.what();
  if (text.starts_with(where.substr(0, where.rfind(':') + 1))) throw error;
  fail("{}: {}", where, text);
}

// paged { ... }. Upvalues: parts, index into constructors, the constructor's name in the script, and its line.
int construct_part(lua_State* L) {
  return lua_barrier(L, [L] {
    ScriptParts& parts = script_parts(L);
    const std::string where = script_location(L);
    const std::string name = lua_tostring(L, lua_upvalueindex(3));
    if (!parts.loading) fail("{}: {} can only be made while the script loads, not in a callback", where, name);
    nlohmann::json options;
    try {
      options = options_at_1(L, name);
    } catch (const Error& error) {
      fail("{}: {}", where, error.what());
    }
    if (parts.parts.size() == kMaxParts) {
      fail("{}: the script makes more than {} parts; make each one where it is used", where, kMaxParts);
    }
    const auto& components = parts.constructors[static_cast<std::size_t>(lua_tointeger(L, lua_upvalueindex(2)))];
    parts.parts.push_back(make_part(components, name, options, parts.folder, where));
    push_index(L, parts.parts.size() - 1, kPartType);
    return 1;
  });
}

std::size_t add_constructor(ScriptParts& parts, std::vector<const Component*> components) {
  parts.constructors.push_back(std::move(components));
  return parts.constructors.size() - 1;
}

void push_constructor(lua_State* L, ScriptParts& parts, std::size_t index, const std::string& name,
                      const std::string& where) {
  lua_pushlightuserdata(L, &parts);
  lua_pushinteger(L, static_cast<lua_Integer>(index));
  lua_pushlstring(L, name.data(), name.size());
  lua_pushlstring(L, where.data(), where.size());
  lua_pushcclosure(L, &construct_part, 4);
}

// If the value on top is a constructor instead of a part, raises an error that says so, with its line.
void check_is_called(lua_State* L, const std::string& place) {
  if (lua_tocfunction(L, -1) != &construct_part) return;
  lua_getupvalue(L, -1, 3);
  lua_getupvalue(L, -2, 4);
  const std::string name = lua_tostring(L, -2), where = lua_tostring(L, -1);
  fail("{}: {} is {} without its options; write {} {{ ... }} (the {{ }} are missing)", where, place, name, name);
}

// The argument of plugin: "./file.so", or a file or name that is pinned, { "suffix", sha256 = "..." }.
struct WantedPlugin {
  std::string name;
  std::string sha256;  // empty: not pinned
  std::string text;    // as the script calls the constructor
};

WantedPlugin wanted_plugin_at_1(lua_State* L) {
  if (lua_type(L, 1) == LUA_TSTRING) {
    const std::string name = lua_tostring(L, 1);
    return {name, "", fmt::format("plugin(\"{}\")", name)};
  }
  constexpr const char* kForms = "plugin(\"./x.so\") { ... } or plugin { \"x\", sha256 = \"...\" } { ... }";
  if (lua_type(L, 1) != LUA_TTABLE) fail("plugin needs the name of a file, {}", kForms);
  const bool is_named = lua_rawgeti(L, 1, 1) == LUA_TSTRING;
  lua_pushliteral(L, "sha256");
  const bool is_pinned = lua_rawget(L, 1) == LUA_TSTRING;
  int num_keys = 0;
  for (lua_pushnil(L); lua_next(L, 1) != 0; lua_pop(L, 1)) ++num_keys;
  if (!is_named || !is_pinned || num_keys != 2) {
    fail("plugin needs the name of a file, or a name and its sha256 and nothing else: {}", kForms);
  }
  const std::string name = lua_tostring(L, -2);
  const std::string sha256 = lua_tostring(L, -1);
  if (sha256.empty()) fail("the sha256 of plugin {{ \"{}\" }} is empty; give the 64 digits of `sha256sum FILE`", name);
  lua_pop(L, 2);
  return {name, sha256, fmt::format("plugin {{ \"{}\", sha256 }}", name)};
}

std::vector<const Component*> find_wanted(const WantedPlugin& wanted, const ScriptParts& parts) {
  const bool is_file = wanted.name.find('/') != std::string::npos || wanted.name.ends_with(".so");
  if (!wanted.sha256.empty() && !is_file) return parts.catalog->find_pinned(wanted.name, wanted.sha256);
  const auto path = (parts.folder / wanted.name).lexically_normal();
  const PluginFile& file =
      wanted.sha256.empty() ? load_plugin_file(path) : load_pinned_plugin_file(path, wanted.sha256);
  std::vector<const Component*> components;
  for (const auto& component : file.components) components.push_back(&component);
  return components;
}

// plugin("./file.so") and plugin { "name", sha256 = "..." } return a constructor.
int plugin_from_file(lua_State* L) {
  return lua_barrier(L, [L] {
    ScriptParts& parts = script_parts(L);
    const std::string where = script_location(L);
    if (!parts.loading) fail("{}: plugin can only be called while the script loads, not in a callback", where);
    LuaState::of(L).spend(kLookUpCost);
    try {
      const WantedPlugin wanted = wanted_plugin_at_1(L);
      push_constructor(L, parts, add_constructor(parts, find_wanted(wanted, parts)), wanted.text, where);
    } catch (const Error& error) {
      fail("{}: {}", where, error.what());
    }
    return 1;
  });
}

// __index of the globals. Arguments: table, name.
int find_global(lua_State* L) {
  return lua_barrier(L, [L] {
    ScriptParts& parts = script_parts(L);
    if (lua_type(L, 2) != LUA_TSTRING) {
      lua_pushnil(L);
      return 1;
    }
    const std::string name = lua_tostring(L, 2);
    const std::string where = script_location(L);
    if (const std::string why = why_absent(name); !why.empty()) fail("{}: {}", where, why);
    if (const auto earlier = parts.found.find(name); earlier != parts.found.end()) {
      push_constructor(L, parts, earlier->second, name, where);
      return 1;
    }
    if (!parts.loading) fail("{}: unknown variable '{}'; a callback sees the variables of the script", where, name);
    LuaState::of(L).spend(kLookUpCost);
    try {
      const auto found = parts.catalog->find(name);
      if (found.components.empty()) parts.catalog->fail_unknown(name, found);
      parts.found[name] = add_constructor(parts, found.components);
    } catch (const Error& error) {
      fail("{}: {}", where, error.what());
    }
    push_constructor(L, parts, parts.found[name], name, where);
    return 1;
  });
}

constexpr const char* kFirstOfForm = "first_of { ngram {}, draft_model { path = ... } }";

// Reads an item of first_of's list, which is on top.
PartDescription read_alternative(lua_State* L, const ScriptParts& parts, std::size_t number) {
  const auto index = index_at(L, -1, kPartType);
  if (!index) {
    check_is_called(L, fmt::format("item {} of first_of", number));
    const char* what = index_at(L, -1, kProposersType) ? "another first_of" : luaL_typename(L, -1);
    fail("item {} of first_of is {}{}; expected a proposer, <plugin> {{ ... }}", number,
         index_at(L, -1, kProposersType) ? "" : "a ", what);
  }
  return part_of_kind(parts.parts[*index], PartKind::kProposer, fmt::format("item {} of first_of", number));
}

std::vector<PartDescription> read_alternatives(lua_State* L, const ScriptParts& parts) {
  if (lua_type(L, 1) != LUA_TTABLE)
    fail("first_of needs a list of proposers, {}, not a {}", kFirstOfForm, luaL_typename(L, 1));
  std::vector<PartDescription> proposers;
  const auto size = static_cast<std::size_t>(lua_rawlen(L, 1));
  for (std::size_t i = 1; i <= size && i <= kMaxAlternatives; ++i) {
    lua_rawgeti(L, 1, static_cast<lua_Integer>(i));
    proposers.push_back(read_alternative(L, parts, i));
    lua_pop(L, 1);
  }
  std::size_t num_keys = 0;
  for (lua_pushnil(L); lua_next(L, 1) != 0; lua_pop(L, 1)) ++num_keys;
  if (num_keys > size) fail("first_of needs a list of proposers, {}, without names and gaps", kFirstOfForm);
  check_alternatives(size, proposers);
  return proposers;
}

// first_of { a {}, b {} }: for each sequence, the first proposer that returns drafts supplies all of them.
int construct_alternatives(lua_State* L) {
  return lua_barrier(L, [L] {
    ScriptParts& parts = script_parts(L);
    const std::string where = script_location(L);
    if (!parts.loading) fail("{}: first_of can only be called while the script loads, not in a callback", where);
    if (parts.proposers.size() == kMaxParts) {
      fail("{}: the script calls first_of more than {} times; call it where it is used", where, kMaxParts);
    }
    std::vector<PartDescription> proposers;
    try {
      proposers = read_alternatives(L, parts);
    } catch (const Error& error) {
      throw_located(where, error);
    }
    parts.proposers.push_back(std::move(proposers));
    push_index(L, parts.proposers.size() - 1, kProposersType);
    return 1;
  });
}

// The keys of pipeline { ... } that are parts. Only the proposer may be absent.
struct PartKey {
  const char* key;
  PartKind kind;
};
constexpr PartKey kPartKeys[] = {{"device", PartKind::kDevice},
                                 {"model", PartKind::kModel},
                                 {"attention", PartKind::kAttention},
                                 {"scheduler", PartKind::kScheduler},
                                 {"proposer", PartKind::kProposer}};

void check_keys(lua_State* L) {
  std::vector<std::string> known;
  for (const auto& [key, kind] : kPartKeys) known.emplace_back(key);
  known.insert(known.end(), {"kv_cache", "speculation", "chat", "checked"});
  for (lua_pushnil(L); lua_next(L, 1) != 0; lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING) fail("pipeline needs parts by name, device = cpu {{ }}, not a list");
    const std::string key = lua_tostring(L, -2);
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    fail("unknown key '{}' of pipeline{}; it has: {}", key, did_you_mean(key, known), join_names(known));
  }
}

PartDescription read_part(lua_State* L, const ScriptParts& parts, const PartKey& key) {
  if (lua_getfield(L, 1, key.key) == LUA_TNIL) {
    fail("pipeline has no {}; give it one, {} = <plugin> {{ ... }} (`mortise plugin list` shows all)", key.key,
         key.key);
  }
  const auto index = index_at(L, -1, kPartType);
  if (!index) {
    check_is_called(L, fmt::format("{} of pipeline", key.key));
    fail("{} of pipeline is a {}; expected a part, {} = <plugin> {{ ... }}", key.key, luaL_typename(L, -1), key.key);
  }
  lua_pop(L, 1);
  return part_of_kind(parts.parts[*index], key.kind, key.key);
}

std::vector<PartDescription> read_proposers(lua_State* L, const ScriptParts& parts, const PartKey& key) {
  const int type = lua_getfield(L, 1, key.key);
  const auto index = index_at(L, -1, kProposersType);
  lua_pop(L, 1);
  if (type == LUA_TNIL) return {};
  if (index) return parts.proposers[*index];
  return {read_part(L, parts, key)};
}

nlohmann::json read_table(lua_State* L, const char* key) {
  nlohmann::json table = nlohmann::json::object();
  if (lua_getfield(L, 1, key) != LUA_TNIL) {
    try {
      table = to_json(L, -1);
    } catch (const Error& error) {
      fail("{} {}", key, error.what());
    }
    if (!table.is_object()) fail("{} of pipeline is {}; expected a table, {} = {{ ... }}", key, show_value(table), key);
  }
  lua_pop(L, 1);
  return table;
}

bool read_checked(lua_State* L) {
  const int type = lua_getfield(L, 1, "checked");
  const bool is_checked = lua_toboolean(L, -1) != 0;
  lua_pop(L, 1);
  if (type != LUA_TNIL && type != LUA_TBOOLEAN) {
    fail("checked of pipeline is a {}; expected true or false", lua_typename(L, type));
  }
  return is_checked;
}

PipelineDescription read_pipeline(lua_State* L, const ScriptParts& parts) {
  if (lua_type(L, 1) != LUA_TTABLE) fail("pipeline needs a table, pipeline {{ device = ..., model = ... }}");
  check_keys(L);
  PipelineDescription pipeline{};
  pipeline.plugin_folders = parts.catalog->folders();
  PartDescription* const places[] = {&pipeline.device, &pipeline.model, &pipeline.attention, &pipeline.scheduler};
  for (std::size_t i = 0; i < std::size(places); ++i) *places[i] = read_part(L, parts, kPartKeys[i]);
  pipeline.proposers = read_proposers(L, parts, kPartKeys[4]);
  pipeline.kv_cache = parse_kv_cache(read_table(L, "kv_cache"));
  pipeline.speculation = parse_speculation(read_table(L, "speculation"));
  pipeline.chat = parse_chat(read_table(L, "chat"));
  pipeline.checked = read_checked(L);
  read_shared_options(pipeline);
  check_calls(pipeline);
  return pipeline;
}

int construct_pipeline(lua_State* L) {
  return lua_barrier(L, [L] {
    ScriptParts& parts = script_parts(L);
    const std::string where = script_location(L);
    if (parts.pipelines.size() == kMaxPipelines) fail("{}: more than {} pipelines; make fewer", where, kMaxPipelines);
    if (!parts.loading) fail("{}: pipeline can only be called while the script loads, not in a callback", where);
    PipelineDescription pipeline;
    try {
      pipeline = read_pipeline(L, parts);
    } catch (const Error& error) {
      throw_located(where, error);
    }
    pipeline.where = where;
    const mortise_query query = pipeline.query();
    for (const PartDescription* part : {&pipeline.device, &pipeline.model, &pipeline.attention, &pipeline.scheduler}) {
      part->select(query);
    }
    for (const PartDescription& proposer : pipeline.proposers) proposer.select(query);
    parts.pipelines.push_back(std::move(pipeline));
    push_index(L, parts.pipelines.size() - 1, kPipelineType);
    return 1;
  });
}

int part_to_string(lua_State* L) {
  const auto index = index_at(L, 1, kPartType);
  const ScriptParts& parts = script_parts(L);
  lua_pushfstring(L, "part '%s'", index ? parts.parts[*index].name.c_str() : "?");
  return 1;
}

void set_function(lua_State* L, ScriptParts& parts, const char* field, lua_CFunction function) {  // of the table on top
  lua_pushlightuserdata(L, &parts);
  lua_pushcclosure(L, function, 1);
  lua_setfield(L, -2, field);
}

void make_type(lua_State* L, const char* type) {
  luaL_newmetatable(L, type);
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");  // hides the metatable from scripts
}

}  // namespace

void check_alternatives(std::size_t count, std::span<const PartDescription> proposers) {
  if (count == 0) fail("first_of has an empty list; give it proposers, {}", kFirstOfForm);
  if (count > kMaxAlternatives) fail("first_of has {} proposers; at most {} are allowed", count, kMaxAlternatives);
  for (std::size_t i = 0; i < proposers.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (proposers[i].name != proposers[j].name) continue;
      fail("first_of has '{}' twice; a request chooses a proposer by its name, so give each plugin once",
           proposers[i].name);
    }
  }
}

std::string why_absent(std::string_view name) {
  static constexpr std::pair<std::string_view, std::string_view> kReasons[] = {
      {"require", "a pipeline script is one file and loads no modules; put everything that it needs into this file"},
      {"dofile", "a pipeline script is one file and runs no other; put everything that it needs into this file"},
      {"loadfile", "a pipeline script is one file and runs no other; put everything that it needs into this file"},
      {"package", "a pipeline script is one file and loads no modules"},
      {"collectgarbage", "the runtime limits and frees a script's memory"},
      {"coroutine", "the limit on a script's instructions covers only one thread"},
      {"debug", "it could lift the limits on a script"}};
  for (const auto& [absent, reason] : kReasons) {
    if (name == absent) return fmt::format("{} is not available in a pipeline script: {}", name, reason);
  }
  return "";
}

void open_constructors(lua_State* L, ScriptParts& parts) {
  make_type(L, kPartType);
  set_function(L, parts, "__tostring", &part_to_string);
  make_type(L, kProposersType);
  make_type(L, kPipelineType);
  lua_pushglobaltable(L);
  set_function(L, parts, "plugin", &plugin_from_file);
  set_function(L, parts, "first_of", &construct_alternatives);
  set_function(L, parts, "pipeline", &construct_pipeline);
  lua_newtable(L);
  set_function(L, parts, "__index", &find_global);
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  lua_setmetatable(L, -2);
  lua_pop(L, 3);
}

std::optional<std::size_t> pipeline_at(lua_State* L, int index) {
  return index_at(L, index, kPipelineType);
}

}  // namespace mortise

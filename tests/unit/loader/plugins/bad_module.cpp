// tests/unit/loader/plugins/bad_module.cpp: modules that are wrong in one respect each; CASE picks it.
#include <cstring>
#include <string_view>

#include "stub_tables.hpp"

namespace {

constexpr char kGoodSchema[] = R"({"type": "object"})";
constexpr mortise_scheduler_table kTable = stub::scheduler_table();

char large_schema[(1 << 20) + 1];  // filled by the entry: more than a schema may have

#define IS(name) (std::string_view(CASE) == #name)

constexpr mortise_scheduler_table bad_table() {
  mortise_scheduler_table table = kTable;
  if (IS(missing_slot)) table.plan = nullptr;
  if (IS(short_table)) table.struct_size = offsetof(mortise_scheduler_table, plan);
  if (IS(unsized_table)) table.struct_size = 0;
  return table;
}
constexpr mortise_scheduler_table kBadTable = bad_table();

constexpr const char* schema() {
  if (IS(schema_no_json)) return "{";
  if (IS(schema_no_object)) return R"({"type": "array"})";
  if (IS(schema_no_default)) return R"({"type": "object", "properties": {"x": {"title": "x", "type": "integer"}}})";
  if (IS(schema_no_title)) return R"({"type": "object", "properties": {"x": {"type": "integer", "default": 1}}})";
  if (IS(schema_bad_default)) {
    return R"({"type": "object", "properties": {"x": {"title": "x", "type": "integer", "default": "one"}}})";
  }
  if (IS(schema_ref)) return R"({"type": "object", "properties": {"x": {"$ref": "#"}}})";
  if (IS(schema_bad_type)) {
    return R"({"type": "object", "properties": {"x": {"title": "x", "type": 7, "default": 1}}})";
  }
  if (IS(no_schema)) return nullptr;
  if (IS(schema_too_large)) return large_schema;
  return kGoodSchema;
}

constexpr mortise_component bad_component() {
  mortise_component c = stub::component(MORTISE_KIND_SCHEDULER, "bad", schema(), &kBadTable);
  if (IS(unknown_kind)) c.kind = 77;
  if (IS(null_name)) c.name = nullptr;
  if (IS(null_summary)) c.summary = nullptr;
  if (IS(bad_name)) c.name = "Bad-Name";
  if (IS(no_table)) c.table = nullptr;
  if (IS(no_create)) c.create = nullptr;
  if (IS(half_active)) c.deactivate = stub::destroy_nothing;
  if (IS(short_component)) c.struct_size = offsetof(mortise_component, create);
  return c;
}
constexpr mortise_component kBad = bad_component();
constexpr mortise_component kGood = stub::component(MORTISE_KIND_SCHEDULER, "good", kGoodSchema, &kTable);

const mortise_component* const kComponents[] = {&kGood, IS(null_component) ? nullptr : IS(twice) ? &kGood : &kBad};

constexpr mortise_module bad_module() {
  mortise_module m{};
  m.struct_size = sizeof m;
  m.abi_minor = MORTISE_ABI_MINOR;
  m.num_components = 2;
  m.id = "test.bad";
  m.vendor = "Tests";
  m.version = "1.0.0";
  m.license = "Apache-2.0";
  m.components = kComponents;
  if (IS(older_minor)) m.abi_minor = MORTISE_ABI_OLDEST_MINOR - 1;
  if (IS(oldest_minor)) m.abi_minor = MORTISE_ABI_OLDEST_MINOR;
  if (IS(newer_minor)) m.abi_minor = MORTISE_ABI_MINOR + 1;
  if (IS(short_module)) m.struct_size = offsetof(mortise_module, components);
  if (IS(tiny_module)) m.struct_size = 8;
  if (IS(null_id)) m.id = nullptr;
  if (IS(no_components)) m.num_components = 0;
  if (IS(wild_components)) m.num_components = 1 << 20;
  return m;
}
const mortise_module kModule = bad_module();

}  // namespace

MORTISE_EXTERN_C MORTISE_EXPORT const mortise_module* mortise_plugin_entry_v0(const mortise_entry_args*) {
  if (IS(schema_too_large)) std::memset(large_schema, ' ', sizeof large_schema - 1);
  return IS(null_module) ? nullptr : &kModule;
}

// runtime/pipeline/table_schemas.hpp: what the tables of pipeline { ... } hold, for whoever suggests their names.
#pragma once

#include "loader/options_schema.hpp"

namespace mortise {

const OptionsSchema& kv_cache_schema();
const OptionsSchema& speculation_schema();

}  // namespace mortise

// runtime/pipeline/table_schemas.hpp: the schemas of the tables in pipeline { ... }, for suggestions of names.
#pragma once

#include "loader/options_schema.hpp"

namespace mortise {

const OptionsSchema& kv_cache_schema();
const OptionsSchema& speculation_schema();

}  // namespace mortise

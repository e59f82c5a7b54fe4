// runtime/pipeline/demo_script.hpp: the built-in script, which runs if no script is given.
#pragma once

namespace mortise {

extern const char* const kDemoScript;    // the text of scripts/demo.lua
extern const char* const kSourceFolder;  // the source tree of this build

}  // namespace mortise

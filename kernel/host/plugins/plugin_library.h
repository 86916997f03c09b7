// Loads one plugin's shared library, after its text section has been read and its tag has been found to match.
//
// The order is the protection: a file that could harm the process (truncated, built for another kernel) is refused by
// read_plugin_info and check_tag before dlopen runs its initialisers. Libraries are never unloaded, so the descriptor
// and its strings live as long as the process.
#pragma once

#include "meshwright/plugin.h"
#include "meshwright/result.h"
#include "plugins/plugin_info.h"

namespace meshwright::host {

// The descriptor of the plugin at `info.path`, every field of it checked. Errors: plugin_failed, one distinct sentence
// for each way to fail: wrong tag, dlopen, no symbol, null descriptor, magic, ABI version, size, a tag, kind, id or
// version that differs from the text section, a missing string or function, an ill-formed configuration schema.
Result<const meshwright_plugin_v1*> load_plugin(const PluginInfo& info);

}  // namespace meshwright::host

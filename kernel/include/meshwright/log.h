// Logging through the host. A plugin never writes to the terminal itself: it hands a line to the sink that the host
// installed, which adds the plugin's id, filters by level and decides where it goes. Without a sink lines are dropped.
// Thread-safe: the sink is installed once, before any plugin is loaded.
#pragma once

#include <string_view>

#include "meshwright/export.h"

namespace meshwright {

enum class LogLevel : int { debug, info, warning, error };

using LogSink = void (*)(LogLevel level, std::string_view source, std::string_view message);

MESHWRIGHT_API void set_log_sink(LogSink sink);

// `source` is the id of the plugin or the stage that speaks.
MESHWRIGHT_API void log(LogLevel level, std::string_view source, std::string_view message);

}  // namespace meshwright

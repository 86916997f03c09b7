// Where log lines go: standard error, so that a pipe of standard output carries results only.
#pragma once

#include "meshwright/log.h"

namespace meshwright::host {

// Installs the sink; lines below `least` are dropped. To be called once, before any plugin is loaded.
void install_log_sink(LogLevel least);

}  // namespace meshwright::host

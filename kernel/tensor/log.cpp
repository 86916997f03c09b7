#include "meshwright/log.h"

#include <atomic>

namespace meshwright {

namespace {

std::atomic<LogSink> current_sink{nullptr};

}  // namespace

void set_log_sink(LogSink sink) { current_sink = sink; }

void log(LogLevel level, std::string_view source, std::string_view message) {
  if (LogSink sink = current_sink) sink(level, source, message);
}

}  // namespace meshwright

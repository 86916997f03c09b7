#include "config/log_sink.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

#include "foreign_text.h"

namespace meshwright::host {
namespace {

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warning:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

spdlog::logger& logger() {
  static spdlog::logger instance("meshwright", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  return instance;
}

void write_line(LogLevel level, std::string_view source, std::string_view message) {
  logger().log(level_of(level), "{}: {}", source, message_line(message, 2000));
}

}  // namespace

void install_log_sink(LogLevel least) {
  logger().set_pattern("meshwright: %l: %v");
  logger().set_level(level_of(least));
  set_log_sink(write_line);
}

}  // namespace meshwright::host

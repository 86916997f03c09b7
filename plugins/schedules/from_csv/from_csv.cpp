// A schedule from a file in PyTorch's format (schedule_csv.h), which has a shape of its own.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>

#include "foreign_text.h"
#include "meshwright/plugin.h"
#include "schedule_csv.h"

namespace meshwright {

namespace {

constexpr meshwright_config_key_v1 kSchema[] = {
    {"file", "text", "", "\"\"", "the schedule, a file in PyTorch's CSV format; --file goes before it"}};
constexpr const char* kServes[] = {".csv", nullptr};

constexpr std::uintmax_t kMostBytes = std::uintmax_t{128} << 20U;
constexpr std::size_t kMostPathShown = 200;

Result<std::string> read_file(const std::string& path, const std::string& where) {
  std::error_code failure;
  if (!std::filesystem::is_regular_file(path, failure)) {
    return bad_input(where + ": " +
                     (std::filesystem::exists(path, failure) ? "is no regular file" : "there is no such file") +
                     "; give a schedule in PyTorch's CSV format");
  }
  if (std::filesystem::file_size(path, failure) > kMostBytes)
    return bad_input(where + ": has more than 128 MiB, which no schedule has");
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || (file.peek() != std::ifstream::traits_type::eof() && !(text << file.rdbuf()))) {
    return bad_input(where + ": can't be read");
  }
  return text.str();
}

// "4 stages": in a sentence, if another number is wanted.
std::string difference(std::uint32_t wanted, std::uint32_t has, const char* what) {
  if (wanted == 0 || wanted == has) return "";
  return "has " + std::to_string(has) + " " + what + ", not " + std::to_string(wanted) +
         "; leave out their number, or give another file";
}

class FromCsv final : public ScheduleMaker {
 public:
  explicit FromCsv(std::string path) : path_(std::move(path)) {}

 private:
  Result<PipelineSchedule> do_make(const ScheduleShape& wanted) const override {
    const std::string where = message_line(path_, kMostPathShown);
    const Result<std::string> text = read_file(path_, where);
    if (!text) return text.error();
    Result<PipelineSchedule> schedule = read_schedule_csv(*text, where);
    if (!schedule) return schedule;
    const ScheduleShape& has = schedule->shape;
    for (const std::string& wrong :
         {difference(wanted.stages, has.stages, "stages"), difference(wanted.chunks, has.chunks, "chunks"),
          difference(wanted.microbatches, has.microbatches, "microbatches")}) {
      if (!wrong.empty()) return bad_input(where + ": " + wrong);
    }
    return schedule;
  }

  const std::string path_;
};

void* create(const Config& config, Error& error) {
  if (config.text("file").empty()) {
    error = bad_input(
        "from_csv reads a schedule from a file, and none is named; give --file FILE, or file in [search.from_csv]");
    return nullptr;
  }
  return static_cast<ScheduleMaker*>(new FromCsv(config.text("file")));
}

}  // namespace

MESHWRIGHT_PLUGIN("schedules", "from_csv", "0.1.0", "Apache-2.0", "A schedule from a file in PyTorch's CSV format",
                  kServes, kSchema, std::size(kSchema), create, destroy_plugin<ScheduleMaker>)

}  // namespace meshwright
